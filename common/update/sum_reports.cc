#include "common/update/sum_reports.h"

#include <cmath>
#include <utility>

namespace tributary {

std::optional<StepSums> SumReports::Add(const ChunkReport& chunk) {
  std::optional<StepSums::Nonfinite> nonfinite;
  if (!std::isfinite(chunk.sum_of_squares)) {
    const TreeSum::Nonfinite found = chunk.sum->FindNonfinite(chunk.elements);
    nonfinite.emplace();
    nonfinite->set_chunk(chunk.number);
    nonfinite->set_element(found.element);
    nonfinite->set_contributor(found.contributor);
  }
  absl::MutexLock lock(&mu_);
  Open& open = open_[chunk.step];
  if (open.missing == 0) {
    open.missing = chunks_;
    open.sums.set_step(chunk.step);
    open.sums.mutable_sum_of_squares()->Resize(chunks_, 0.0);
  }
  open.sums.set_sum_of_squares(chunk.place, chunk.sum_of_squares);
  open.sums.set_weight(chunk.sum->sample_count());
  if (nonfinite.has_value()) {
    *open.sums.add_nonfinite() = *std::move(nonfinite);
  }
  if (chunk.number == 0) {
    open.sums.set_loss_sum(chunk.sum->loss_sum());
    open.sums.set_nonfinite_loss_contributor(
        chunk.sum->nonfinite_loss_contributor());
  }
  if (--open.missing > 0) return std::nullopt;
  StepSums complete = std::move(open.sums);
  open_.erase(chunk.step);
  return complete;
}

}  // namespace tributary
