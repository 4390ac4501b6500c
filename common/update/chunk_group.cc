#include "common/update/chunk_group.h"

#include <algorithm>
#include <cmath>

namespace tributary {

ChunkUpdater* ChunkGroup::Find(int number) const {
  const auto place =
      std::lower_bound(chunks_.begin(), chunks_.end(), number,
                       [](const std::unique_ptr<ChunkUpdater>& chunk,
                          int wanted) { return chunk->number() < wanted; });
  if (place == chunks_.end() || (*place)->number() != number) return nullptr;
  return place->get();
}

int64_t ChunkGroup::CompleteVersion() const {
  int64_t version = steps_;
  for (const auto& chunk : chunks_) {
    version = std::min(version, chunk->version());
  }
  return version;
}

std::optional<MissingWork> ChunkGroup::FindMissingWork() const {
  const int64_t step = CompleteVersion();
  for (const auto& chunk : chunks_) {
    const std::optional<int> leaf = chunk->FirstMissing(step);
    if (!leaf.has_value()) continue;
    MissingWork missing;
    missing.set_step(step);
    missing.set_leaf(*leaf);
    return missing;
  }
  return std::nullopt;
}

std::optional<StepSums> ChunkGroup::AddSum(const ChunkUpdater& chunk,
                                           double sum_of_squares) {
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
  absl::MutexLock lock(&mu_);
  Open& open = open_[step];
  if (open.missing == 0) {
    open.missing = static_cast<int>(chunks_.size());
    open.sums.set_step(step);
    open.sums.mutable_sum_of_squares()->Resize(open.missing, 0.0);
  }
  open.sums.set_sum_of_squares(chunk.place(), sum_of_squares);
  open.sums.set_weight(sum.sample_count());
  if (nonfinite.has_value()) {
    *open.sums.add_nonfinite() = *std::move(nonfinite);
  }
  if (chunk.number() == 0) {
    open.sums.set_loss_sum(sum.loss_sum());
    open.sums.set_nonfinite_loss_contributor(sum.nonfinite_loss_contributor());
  }
  --open.missing;
  // The policy has already found each chunk's contributions complete.
  if (!policy_.IsComplete({/*missing_leaf=*/std::nullopt, open.missing})) {
    return std::nullopt;
  }
  StepSums complete = std::move(open.sums);
  open_.erase(step);
  return complete;
}

}  // namespace tributary
