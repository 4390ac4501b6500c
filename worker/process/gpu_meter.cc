#include "worker/process/gpu_meter.h"

#include <utility>

#include "common/base/status_macros.h"

namespace tributary {
namespace {

absl::StatusOr<std::vector<GpuReport>> ReadWithNvml() {
  TRIBUTARY_ASSIGN_OR_RETURN(const Nvml* const nvml, LoadNvml());
  return ReadGpus(*nvml);
}

}  // namespace

GpuMeter::GpuMeter(const std::string& bus_id, absl::Duration interval,
                   Read read) {
  if (bus_id.empty()) return;
  if (read == nullptr) read = &ReadWithNvml;
  pulse_ = std::make_unique<Pulse>(
      interval,
      [this, bus_id, read = std::move(read)] { Measure(bus_id, read); });
}

void GpuMeter::Measure(const std::string& bus_id, const Read& read) {
  const absl::StatusOr<std::vector<GpuReport>> gpus = read();
  if (!gpus.ok()) return;
  for (const GpuReport& gpu : *gpus) {
    if (gpu.bus_id != bus_id) continue;
    absl::MutexLock lock(&mu_);
    newest_ = gpu;
  }
}

void GpuMeter::Fill(ProcessStatistics* statistics) const {
  absl::MutexLock lock(&mu_);
  if (newest_.utilization_percent.has_value()) {
    statistics->set_gpu_percent(*newest_.utilization_percent);
  }
  statistics->set_gpu_memory_bytes(newest_.used_bytes);
}

}  // namespace tributary
