// Measures the utilization of a worker's GPU.
#ifndef TRIBUTARY_WORKER_PROCESS_GPU_METER_H_
#define TRIBUTARY_WORKER_PROCESS_GPU_METER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/pulse.h"
#include "proto/rendezvous.pb.h"
#include "worker/device/cuda/libraries/nvml.h"

namespace tributary {

// Asks the driver periodically, on a thread of its own, for the utilization of
// a GPU: heartbeats, which keep the worker's lease, must not wait for the
// driver. Thread-safe.
class GpuMeter {
 public:
  using Read = std::function<absl::StatusOr<std::vector<GpuReport>>()>;

  // `bus_id` is the PCI address of the GPU; if it is empty, there is no GPU and
  // no thread. `read` lists the GPUs of the machine, by default with NVML.
  explicit GpuMeter(const std::string& bus_id,
                    absl::Duration interval = absl::Seconds(2),
                    Read read = nullptr);

  // Sets the newest values, if the driver reports any.
  void Fill(ProcessStatistics* statistics) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Measure(const std::string& bus_id, const Read& read)
      ABSL_LOCKS_EXCLUDED(mu_);

  mutable absl::Mutex mu_;
  GpuReport newest_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Pulse> pulse_;  // Null if there is no GPU.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_GPU_METER_H_
