#include "worker/exchange/all_reduce/square_sums.h"

#include "common/base/status_macros.h"
#include "worker/exchange/all_reduce/all_reduce_tag.h"

namespace tributary {

SquareSums::SquareSums(const ChunkRoutes* routes, int64_t step, int rank,
                       bool all, const Receive& receive)
    : routes_(*routes),
      tag_(AllReduceTag(AllReduceKind::kSquareSums, step, /*chunk=*/0,
                        /*node=*/0)),
      rank_(rank),
      all_(all),
      sums_(routes->size()) {
  for (int member = 0; member < routes_.size(); ++member) {
    sums_[member].resize(routes_.OwnedBy(member).size());
    if (member == rank_ || (rank_ != 0 && !all_)) continue;
    transfers_.push_back(
        receive(member, tag_, sums_[member].data(), Bytes(member)));
  }
}

void SquareSums::SendOwn(const std::map<int, SquareSum>& own,
                         const Send& send) {
  for (const auto& [chunk, sum] : own) {
    sums_[rank_][routes_.PlaceOf(chunk)] = sum;
  }
  for (int member = 0; member < (all_ ? routes_.size() : 1); ++member) {
    if (member == rank_) continue;
    send(member, tag_, sums_[rank_].data(), Bytes(rank_));
  }
}

absl::Status SquareSums::Await() {
  for (Transfer& transfer : transfers_) {
    TRIBUTARY_RETURN_IF_ERROR(transfer->Wait());
  }
  return absl::OkStatus();
}

double SquareSums::Total() const {
  double total = 0;
  for (int chunk = 0; chunk < routes_.chunk_count(); ++chunk) {
    total += Of(chunk).value;
  }
  return total;
}

void SquareSums::AddTo(StepSums* sums) const {
  for (int chunk = 0; chunk < routes_.chunk_count(); ++chunk) {
    const SquareSum& sum = Of(chunk);
    sums->add_sum_of_squares(sum.value);
    if (sum.nonfinite < 0) continue;
    StepSums::Nonfinite* const nonfinite = sums->add_nonfinite();
    nonfinite->set_chunk(chunk);
    nonfinite->set_element(sum.nonfinite);
  }
}

}  // namespace tributary
