#include "common/update/step_runner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

// Compares bits: a norm may be NaN.
bool Same(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return std::memcmp(&*a, &*b, sizeof(double)) == 0;
}

}  // namespace

StepRunner::StepRunner(Executor* pool, Options options)
    : pool_(pool), options_(std::move(options)) {}

void StepRunner::Queue(ChunkUpdater* chunk, std::optional<double> norm) {
  {
    absl::MutexLock lock(&mu_);
    queue_.emplace(chunk->number(), norm);
    ++unfinished_;
  }
  pool_->Run([this] { RunNext(); });
}

void StepRunner::RunNext() {
  std::optional<double> norm;
  const std::vector<ChunkUpdater*> chunks = Take(&norm);
  if (chunks.empty()) return;
  if (norm.has_value()) {
    Update(chunks, norm, /*more=*/true);
  } else {
    BeginSteps(chunks, /*more=*/true);
  }
  {
    absl::MutexLock lock(&mu_);
    unfinished_ -= static_cast<int>(chunks.size());
    if (unfinished_ > 0) return;
  }
  options_.on_idle();
}

std::vector<ChunkUpdater*> StepRunner::Take(std::optional<double>* norm) {
  const int streams = options_.passes->streams();
  absl::MutexLock lock(&mu_);
  const int queued = static_cast<int>(queue_.size());
  const int share = (queued + streams - 1) / streams;
  const auto count =
      static_cast<size_t>(std::min(options_.passes->most(), share));
  std::vector<ChunkUpdater*> chunks;
  if (queued == 0) return chunks;
  *norm = queue_.begin()->second;
  while (chunks.size() < count && !queue_.empty() &&
         Same(queue_.begin()->second, *norm)) {
    chunks.push_back(options_.group->Find(queue_.begin()->first));
    queue_.erase(queue_.begin());
  }
  return chunks;
}

void StepRunner::Begin(ChunkUpdater* chunk) {
  if (chunk->pass()->brief()) {
    BeginSteps({chunk}, /*more=*/false);
  } else {
    Queue(chunk, std::nullopt);
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
  absl::StatusOr<std::vector<std::vector<TensorSquares>>> tensors;
  if (options_.has_trust_ratios) {
    std::vector<ChunkPassGroup::TensorItem> tensor_items;
    for (ChunkUpdater* const chunk : chunks) {
      tensor_items.push_back({chunk->pass(), chunk->TensorArguments()});
    }
    tensors = options_.passes->SumTensorSquares(tensor_items);
    if (!tensors.ok())
      return options_.on_failure(chunks[0]->number(), tensors.status());
  } else {
    tensors.emplace(chunks.size());
  }
  const absl::Time end = TraceTime();
  for (size_t i = 0; i < chunks.size(); ++i) {
    chunks[i]->SumDone(begin, end);
    ReportSum(*chunks[i], (*squares)[i], std::move((*tensors)[i]));
  }
}

void StepRunner::ReportSum(const ChunkUpdater& chunk, double sum_of_squares,
                           std::vector<TensorSquares> tensors) {
  const int64_t step = chunk.update().step;
  const TreeSum& sum = chunk.update().sum;
  std::optional<StepSums::Nonfinite> nonfinite;
  if (!std::isfinite(sum_of_squares)) {
    const TreeSum::Nonfinite found = sum.FindNonfinite(chunk.elements());
    nonfinite.emplace();
    nonfinite->set_chunk(chunk.number());
    nonfinite->set_element(found.element);
    nonfinite->set_contributor(found.contributor);
  }
  StepSums complete;
  {
    absl::MutexLock lock(&mu_);
    Open& open = open_[step];
    if (open.missing == 0) {
      open.missing = static_cast<int>(options_.group->chunks().size());
      open.sums.set_step(step);
      open.sums.mutable_sum_of_squares()->Resize(open.missing, 0.0);
      open.tensors.resize(open.missing);
    }
    open.tensors[chunk.place()] = std::move(tensors);
    open.sums.set_sum_of_squares(chunk.place(), sum_of_squares);
    open.sums.set_weight(sum.sample_count());
    if (nonfinite.has_value()) {
      *open.sums.add_nonfinite() = *std::move(nonfinite);
    }
    if (chunk.update().learning_rate.has_value()) {
      open.sums.set_learning_rate(*chunk.update().learning_rate);
    }
    if (chunk.number() == 0) {
      const std::optional<double> loss_sum = sum.loss_sum().value();
      if (loss_sum.has_value()) open.sums.set_loss_sum(*loss_sum);
      open.sums.set_nonfinite_loss_contributor(
          sum.nonfinite_loss_contributor());
    }
    --open.missing;
    // The policy has already found each chunk's contributions complete.
    if (!options_.policy->IsComplete(
            {/*missing_leaf=*/std::nullopt, open.missing})) {
      return;
    }
    for (const auto& of_chunk : open.tensors) {
      for (const TensorSquares& squares : of_chunk) {
        open.sums.add_weight_squares(squares.weights);
        open.sums.add_direction_squares(squares.direction);
      }
    }
    complete = std::move(open.sums);
    open_.erase(step);
  }
  options_.on_sums(complete);
}

void StepRunner::SetGradientNorm(
    int64_t step, double norm,
    std::shared_ptr<const std::vector<float>> trust_ratios) {
  if (!options_.awaits_norm) return;
  for (const auto& chunk : options_.group->chunks()) {
    if (chunk->NormKnown(step, trust_ratios)) Queue(chunk.get(), norm);
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
  if (chunk->Publish(more)) Queue(chunk, std::nullopt);
}

absl::Time StepRunner::TraceTime() const {
  return options_.trace == nullptr ? absl::Time() : MonotonicNow();
}

}  // namespace tributary
