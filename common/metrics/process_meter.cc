#include "common/metrics/process_meter.h"

#include <algorithm>

#include "common/os/process.h"

namespace tributary {

void ProcessMeter::Fill(ProcessStatistics* statistics) const {
  const int64_t resident = MemoryBytes();
  statistics->set_peak_memory_bytes(PeakMemoryBytes());
  statistics->set_memory_bytes(resident);
  statistics->set_proportional_memory_bytes(ProportionalMemory(resident));
  statistics->set_memory_limit_bytes(MemoryLimitBytes().value_or(0));
  statistics->set_cpu_seconds(CpuSeconds());
}

int64_t ProcessMeter::ProportionalMemory(int64_t resident) const {
  absl::MutexLock lock(&mu_);
  if (resident > measured_at_ + measured_at_ / 50) {
    measured_at_ = resident;
    peak_ = std::max(peak_, ProportionalMemoryBytes());
  }
  return peak_;
}

}  // namespace tributary
