#include "common/update/step_runner.h"

#include <utility>

#include "common/base/monotonic_clock.h"

namespace tributary {

StepRunner::StepRunner(Executor* pool, Options options)
    : options_(std::move(options)), queue_(pool, QueueOptions()) {}

UpdateQueue::Options StepRunner::QueueOptions() {
  UpdateQueue::Options options;
  options.most = options_.passes->most();
  options.streams = options_.passes->streams();
  options.run = [this](const std::vector<int>& numbers,
                       std::optional<double> norm) {
    std::vector<ChunkUpdater*> chunks;
    for (const int number : numbers)
      chunks.push_back(options_.group->Find(number));
    if (norm.has_value()) {
      Update(chunks, norm, /*more=*/true);
    } else {
      BeginSteps(chunks, /*more=*/true);
    }
  };
  options.on_idle = options_.on_idle;
  return options;
}

void StepRunner::Begin(ChunkUpdater* chunk) {
  if (chunk->pass()->brief()) {
    BeginSteps({chunk}, /*more=*/false);
  } else {
    queue_.Add(chunk->number(), std::nullopt);
  }
}

void StepRunner::BeginSteps(Chunks chunks, bool more) {
  if (!options_.awaits_norm) {
    return Update(chunks, /*norm=*/std::nullopt, more);
  }
  std::vector<ChunkPassGroup::SumItem> items;
  for (ChunkUpdater* const chunk : chunks) {
    items.push_back({chunk->pass(), &chunk->update().sum});
  }
  const absl::Time begin = TraceTime();
  const absl::StatusOr<std::vector<double>> squares =
      options_.passes->SumOfSquares(items);
  if (!squares.ok())
    return options_.on_failure(chunks[0]->number(), squares.status());
  const absl::Time end = TraceTime();
  for (size_t i = 0; i < chunks.size(); ++i) {
    chunks[i]->SumDone(begin, end);
    ReportSum(*chunks[i], (*squares)[i]);
  }
}

void StepRunner::ReportSum(const ChunkUpdater& chunk, double sum_of_squares) {
  const std::optional<StepSums> complete =
      options_.group->AddSum(chunk, sum_of_squares);
  if (complete.has_value()) options_.on_sums(*complete);
}

void StepRunner::SetGradientNorm(int64_t step, double norm) {
  if (!options_.awaits_norm) return;
  for (const auto& chunk : options_.group->chunks()) {
    if (chunk->NormKnown(step)) queue_.Add(chunk->number(), norm);
  }
}

void StepRunner::Update(Chunks chunks, std::optional<double> norm, bool more) {
  std::vector<ChunkPassGroup::RunItem> items;
  for (ChunkUpdater* const chunk : chunks) {
    items.push_back({chunk->pass(), &chunk->BeginUpdate(norm.value_or(
                                        chunk->update().gradient_norm))});
  }
  const absl::Time begin = TraceTime();
  const absl::StatusOr<std::vector<double>> squares =
      options_.passes->Run(items);
  if (!squares.ok())
    return options_.on_failure(chunks[0]->number(), squares.status());
  const absl::Time end = TraceTime();
  for (size_t i = 0; i < chunks.size(); ++i) {
    ChunkUpdater* const chunk = chunks[i];
    // In synchronous mode no chunk can be summed for the next step before the
    // new version is published, so reports are made in the order of steps.
    if (!options_.awaits_norm) ReportSum(*chunk, (*squares)[i]);
    Snapshot::Chunk copy = chunk->UpdateDone(begin, end);
    if (replicate_ == nullptr) {
      Publish(chunk, more);
      continue;
    }
    // The replica's answer may come after the burst.
    replicate_(chunk->version() + 1, std::move(copy),
               [this, chunk] { Publish(chunk, /*more=*/false); });
  }
}

void StepRunner::Publish(ChunkUpdater* chunk, bool more) {
  // Schedules instead of calling directly, to bound the recursion for a chunk
  // with a long queue.
  if (chunk->Publish(more)) queue_.Add(chunk->number(), std::nullopt);
}

absl::Time StepRunner::TraceTime() const {
  return options_.trace == nullptr ? absl::Time() : MonotonicNow();
}

}  // namespace tributary
