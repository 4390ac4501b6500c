#include "server/records/process_statistics.h"

#include "common/os/process.h"

namespace tributary {

ProcessStatistics StatisticsOf(const Traffic& traffic) {
  ProcessStatistics statistics;
  statistics.set_bytes_sent(traffic.streams.sent);
  statistics.set_bytes_received(traffic.streams.received);
  if (traffic.shared_memory.has_value()) {
    statistics.set_shared_bytes_sent(traffic.shared_memory->sent);
    statistics.set_shared_bytes_received(traffic.shared_memory->received);
  }
  statistics.set_peak_memory_bytes(PeakMemoryBytes());
  statistics.set_memory_bytes(MemoryBytes());
  statistics.set_cpu_seconds(CpuSeconds());
  return statistics;
}

}  // namespace tributary
