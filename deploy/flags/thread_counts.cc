#include "deploy/flags/thread_counts.h"

#include <algorithm>

#include "common/job/exchange_traits.h"
#include "common/os/process.h"
#include "deploy/flags/device_flag.h"

namespace tributary {

int ServerThreads(int servers) { return std::max(1, UsableCores() / servers); }

int UsefulThreads(const JobSpec& job, int64_t workers, int64_t wanted) {
  // A compute thread without a micro-batch would be idle.
  const int64_t micro_batches = job.batch().micro_batches();
  const int64_t useful = ResolveExchange(job).whole_batches
                             ? micro_batches
                             : (micro_batches + workers - 1) / workers;
  return static_cast<int>(std::max<int64_t>(1, std::min(wanted, useful)));
}

int DefaultWorkerThreads(const JobSpec& job, int64_t workers,
                         const DeviceName& device) {
  return UsefulThreads(job, workers,
                       device.kind == DeviceName::Kind::kCuda
                           ? kThreadsPerGpu
                           : UsableCores() / workers);
}

}  // namespace tributary
