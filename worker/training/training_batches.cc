#include "worker/training/training_batches.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/failpoint.h"

namespace tributary {
namespace {

// Returns the number of threads that read ahead. For most data one suffices:
// reading is far faster than computing, and more would take cores from the
// compute threads. Decoding pictures takes longer, so each compute thread gets
// a thread that decodes.
int ReadThreads(const TrainingSetup& setup) {
  return setup.job().data().has_images() ? setup.threads() : 1;
}

// Returns the inputs, one kind of which is empty.
absl::string_view InputBytes(const Batch& batch) {
  if (batch.tokens.empty()) {
    return {reinterpret_cast<const char*>(batch.features.data()),
            batch.features.size() * sizeof(float)};
  }
  return {reinterpret_cast<const char*>(batch.tokens.data()),
          batch.tokens.size() * sizeof(int32_t)};
}

}  // namespace

// One kind of target is empty. If both are, the indexes of the samples count.
int64_t SampleCountOf(const Batch& batch) {
  if (!batch.labels.empty()) {
    return std::count_if(batch.labels.begin(), batch.labels.end(),
                         [](int32_t label) { return label >= 0; });
  }
  return static_cast<int64_t>(batch.values.empty() ? batch.indexes.size()
                                                   : batch.values.size());
}

TrainingBatches::TrainingBatches(const TrainingSetup* setup)
    : setup_(*setup),
      read_ahead_(
          &setup->data(), &setup->sampler(), ReadThreads(*setup),
          /*depth=*/2 * static_cast<int>(setup->job().batch().micro_batches())),
      prefetched_(setup->threads()) {}

void TrainingBatches::Expect(const Task& task,
                             const ComputeThreadItems& items) {
  for (const int64_t round : {task.version, task.next_step}) {
    if (round < 0) break;
    const int64_t step = setup_.rounds().StepsAfter(round);
    for (const int64_t item : items.InOrder()) {
      const int micro_batch = static_cast<int>(item);
      const bool prefetched = std::any_of(
          prefetched_.begin(), prefetched_.end(),
          [&](const Prefetched& there) { return there.Is(step, micro_batch); });
      if (!prefetched) read_ahead_.Expect(step, micro_batch);
    }
  }
}

std::shared_ptr<const Batch> TrainingBatches::Take(int thread, int64_t step,
                                                   int micro_batch) {
  const Prefetched there = std::exchange(prefetched_[thread], Prefetched());
  std::shared_ptr<const Batch> batch =
      there.Is(step, micro_batch) ? there.batch
                                  : read_ahead_.Take(step, micro_batch);
  SampleLedgerEntry(step, micro_batch, batch->samples, InputBytes(*batch));
  return batch;
}

void TrainingBatches::Prefetch(int thread, int64_t step, int micro_batch) {
  std::shared_ptr<const Batch> batch = read_ahead_.TryTake(step, micro_batch);
  if (batch == nullptr) return;
  setup_.model(thread)->Prefetch(batch);
  prefetched_[thread] = {step, micro_batch, std::move(batch)};
}

void TrainingBatches::PrefetchNext(const Task& task, int thread,
                                   ComputeThreadItems* items) {
  const Rounds& rounds = setup_.rounds();
  if (const std::optional<int64_t> next = items->Peek(thread)) {
    Prefetch(thread, rounds.StepsAfter(task.version), static_cast<int>(*next));
  } else if (task.next_step >= 0) {
    // Assignments seldom change.
    Prefetch(thread, rounds.StepsAfter(task.next_step),
             static_cast<int>(items->First(thread)));
  }
}

}  // namespace tributary
