#include "worker/training/micro_batch_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/plan/memory_account.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

// cuBLASLt takes up to 32 MiB. cuDNN's algorithms, attention and the sums of
// large layers rarely take more than the remainder.
constexpr int64_t kWorkingBytes = int64_t{256} << 20;

int64_t PieceSamples(int64_t micro_batch_samples) {
  return std::max(micro_batch_samples, kLeastEvaluationBatch);
}

}  // namespace

int64_t MostSamples(const MicroBatchMemoryInputs& inputs,
                    int64_t micro_batches) {
  const BatchSpec& batch = inputs.job.batch();
  const int64_t micro_batch = batch.global() / micro_batches;
  if (!inputs.evaluates) return micro_batch;
  int64_t piece = inputs.job.evaluation().batch();
  // A resolved job's evaluation batch follows from its micro-batches unless the
  // user has set it.
  const bool follows =
      piece == 0 ||
      (batch.micro_batches() > 0 &&
       piece == PieceSamples(batch.global() / batch.micro_batches()));
  if (follows) piece = PieceSamples(micro_batch);
  return std::max(micro_batch, piece);
}

absl::StatusOr<MicroBatchMemory> PlanMicroBatchMemory(
    const MicroBatchMemoryInputs& inputs, int64_t micro_batches,
    const Device& device) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ModelMemory model,
      inputs.plan_model(inputs.job.model(), inputs.info,
                        MostSamples(inputs, micro_batches), device,
                        PartOf(inputs.job)));
  MicroBatchMemory memory;
  memory.activations = model.activation_bytes;
  memory.gradients = model.arena_bytes;
  if (device.has_own_memory()) {
    memory.weights = model.arena_bytes;
    memory.working = kWorkingBytes;
  }
  return memory;
}

absl::StatusOr<int64_t> FindMicroBatches(const MicroBatchMemoryInputs& inputs,
                                         int64_t fewest, int64_t available,
                                         const Device& device) {
  const int64_t global = inputs.job.batch().global();
  for (int64_t count = 1; count <= kMaxMicroBatches && global % count == 0;
       count *= 2) {
    if (count < fewest) continue;
    const absl::StatusOr<MicroBatchMemory> memory =
        PlanMicroBatchMemory(inputs, count, device);
    // The size overflows.
    if (absl::IsResourceExhausted(memory.status())) continue;
    if (!memory.ok()) return memory.status();
    if (memory->total() <= available) return count;
  }
  return 0;
}

std::string ExplainMicroBatchMemory(const MicroBatchMemoryInputs& inputs,
                                    const MicroBatchMemory& needed,
                                    int64_t available, const Device& device) {
  const int64_t count = inputs.job.batch().micro_batches();
  const int64_t micro_batch = inputs.job.batch().global() / count;
  const int64_t most = MostSamples(inputs, count);
  std::string text = absl::StrCat(
      device.name(), " has too little memory for a micro-batch of ",
      Counted(micro_batch, "sample"));
  if (most > micro_batch) absl::StrAppend(&text, ", and evaluating ", most);
  absl::StrAppend(&text, ": ");
  if (needed.weights > 0) {
    absl::StrAppend(&text, "weights ", FormatMemory(needed.weights), ", ");
  }
  absl::StrAppend(&text, "gradients ", FormatMemory(needed.gradients),
                  ", activations ", FormatMemory(needed.activations));
  if (needed.working > 0) {
    absl::StrAppend(&text, ", working memory ", FormatMemory(needed.working));
  }
  absl::StrAppend(&text, ", in total ", FormatMemory(needed.total()), "; ",
                  FormatMemory(available), " are free. ");
  const absl::StatusOr<int64_t> fits =
      FindMicroBatches(inputs, count, available, device);
  if (fits.ok() && *fits > 0) {
    absl::StrAppend(
        &text, "Set batch.micro_batches to ", *fits, ": a micro-batch of ",
        Counted(inputs.job.batch().global() / *fits, "sample"), " fits");
  } else {
    absl::StrAppend(&text,
                    "No number of batch.micro_batches fits: use a smaller "
                    "model, a smaller evaluation.batch, or a device with more "
                    "memory");
  }
  return text;
}

}  // namespace tributary
