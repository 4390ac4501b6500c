#include "deploy/launch/plan/micro_batches.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/process.h"
#include "worker/data/data_set.h"
#include "worker/training/micro_batch_memory.h"

namespace tributary {
namespace {

// Returns the largest power of two, up to kMaxMicroBatches, that divides
// `batch`.
int64_t MostMicroBatches(int64_t batch) {
  int64_t count = 1;
  while (2 * count <= kMaxMicroBatches && batch % (2 * count) == 0) count *= 2;
  return count;
}

}  // namespace

absl::StatusOr<int64_t> ChooseMicroBatches(const JobSpec& job, int64_t workers,
                                           int64_t devices,
                                           const Device& device,
                                           const TrainingSources& sources) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<DataSet> data,
                             sources.open_data(job));
  const int64_t most = MostMicroBatches(job.batch().global());
  const std::optional<int64_t> free = device.has_own_memory()
                                          ? device.AvailableMemoryBytes()
                                          : AvailableMemoryBytes();
  // If the free memory is unknown, choose the smallest micro-batches.
  if (!free.has_value()) return most;
  const int64_t sharing =
      device.has_own_memory() ? (workers + devices - 1) / devices : 2 * workers;
  const int64_t available = *free / std::max<int64_t>(sharing, 1);
  JobSpec cut = job;
  const MicroBatchMemoryInputs inputs = {
      cut, data->info(),
      !job.evaluation().disabled() && data->evaluation_samples() > 0,
      sources.plan_model};
  TRIBUTARY_ASSIGN_OR_RETURN(
      const int64_t found,
      FindMicroBatches(inputs, std::min(workers, most), available, device));
  if (found > 0) return found;
  cut.mutable_batch()->set_micro_batches(most);
  TRIBUTARY_ASSIGN_OR_RETURN(const MicroBatchMemory needed,
                             PlanMicroBatchMemory(inputs, most, device));
  return absl::ResourceExhaustedError(
      ExplainMicroBatchMemory(inputs, needed, available, device));
}

}  // namespace tributary
