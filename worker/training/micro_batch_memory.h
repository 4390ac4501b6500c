// What computing a leaf takes of a device's memory, told before it is taken.
#ifndef TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_MEMORY_H_
#define TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"

namespace tributary {

// Of one lane, in bytes.
struct MicroBatchMemory {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t activations = 0;  // What backward needs of them, and the next leaf.
  int64_t working = 0;      // Of the device's libraries: an allowance.

  int64_t total() const { return weights + gradients + activations + working; }
};

// The parts of a job that decide it, with batch.micro_batches found or not.
struct MicroBatchMemoryInputs {
  const JobSpec& job;
  DataInfo info;
  bool evaluates = false;  // There are samples to evaluate.
};

// The samples that a model must be planned for when the batch is cut into
// `micro_batches`: of a leaf, or of a piece of the evaluation.
int64_t MostSamples(const MicroBatchMemoryInputs& inputs,
                    int64_t micro_batches);

// Weights are counted where the device has memory of its own: the host's are
// the exchange's. InvalidArgument for a model that cannot be built.
absl::StatusOr<MicroBatchMemory> PlanMicroBatchMemory(
    const MicroBatchMemoryInputs& inputs, int64_t micro_batches,
    const Device& device);

// The smallest number of micro-batches, from `fewest` on, whose leaves fit into
// `available` bytes: a power of two that divides the batch. 0: none does.
absl::StatusOr<int64_t> FindMicroBatches(const MicroBatchMemoryInputs& inputs,
                                         int64_t fewest, int64_t available,
                                         const Device& device);

// "cpu has no memory for a leaf of 64 samples: weights 1.2 GB, ...": what is
// needed, what is there, and what to do.
std::string ExplainMicroBatchMemory(const MicroBatchMemoryInputs& inputs,
                                    const MicroBatchMemory& needed,
                                    int64_t available, const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_MICRO_BATCH_MEMORY_H_
