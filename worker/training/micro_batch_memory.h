// Estimation of the memory that a micro-batch needs.
#ifndef TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_MEMORY_H_
#define TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_MEMORY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/models/model.h"

namespace tributary {

// The memory that one compute thread needs, in bytes.
struct MicroBatchMemory {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t activations = 0;  // Includes saved tensors and the next inputs.
  int64_t working = 0;      // Allowance for the device's libraries.

  int64_t total() const { return weights + gradients + activations + working; }
};

// A function that computes how much memory a model needs. PlanModelMemory is
// the standard implementation.
using ModelPlanner = std::function<absl::StatusOr<ModelMemory>(
    const ModelSpec&, const DataInfo&, int64_t max_samples, const Device&,
    const NetworkPart&)>;

// The job and the data whose memory is estimated. job.batch.micro_batches need
// not be set, except for ExplainMicroBatchMemory. `job` must outlive this
// struct.
struct MicroBatchMemoryInputs {
  const JobSpec& job;
  DataInfo info;
  bool evaluates = false;  // True if the job evaluates on at least one sample.
  // Plans the memory of the job's model. The default supports all models except
  // registered ones (model.external).
  ModelPlanner plan_model = [](const ModelSpec& spec, const DataInfo& info,
                               int64_t max_samples, const Device& device,
                               const NetworkPart& part) {
    return PlanModelMemory(spec, info, max_samples, device, {}, part);
  };
};

// Returns the number of samples for which a model must be planned if the batch
// is divided into `micro_batches` micro-batches: the number of samples in a
// micro-batch or in a piece of the evaluation data, whichever is larger.
int64_t MostSamples(const MicroBatchMemoryInputs& inputs,
                    int64_t micro_batches);

// Estimates the memory of one compute thread. Includes weights only if the
// device has its own memory; host weights belong to the exchange. Returns
// InvalidArgument for a model that cannot be built.
absl::StatusOr<MicroBatchMemory> PlanMicroBatchMemory(
    const MicroBatchMemoryInputs& inputs, int64_t micro_batches,
    const Device& device);

// Returns the smallest number of micro-batches for which a micro-batch fits
// into `available` bytes. The number is a power of two, a divisor of the batch
// size, at least `fewest` and at most kMaxMicroBatches. Returns 0 if there is
// none, and the errors of PlanMicroBatchMemory.
absl::StatusOr<int64_t> FindMicroBatches(const MicroBatchMemoryInputs& inputs,
                                         int64_t fewest, int64_t available,
                                         const Device& device);

// Returns an error message that states the required memory, the available
// memory and a remedy. Requires that job.batch.micro_batches is set. Example:
// "cpu has too little memory for a micro-batch of 64 samples: weights 1.2 GB,
// ...".
std::string ExplainMicroBatchMemory(const MicroBatchMemoryInputs& inputs,
                                    const MicroBatchMemory& needed,
                                    int64_t available, const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_MEMORY_H_
