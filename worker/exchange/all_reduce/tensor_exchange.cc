#include "worker/exchange/all_reduce/tensor_exchange.h"

#include <cstddef>

#include "common/base/status_macros.h"
#include "worker/exchange/all_reduce/all_reduce_tag.h"

namespace tributary {
namespace {

int64_t BytesOf(const std::vector<TensorSquares>& squares) {
  return static_cast<int64_t>(squares.size() * sizeof(TensorSquares));
}

}  // namespace

TensorExchange::TensorExchange(const TrustRatios* ratios,
                               const ChunkRoutes* routes, int64_t step,
                               int rank, const Receive& receive)
    : ratios_(*ratios),
      routes_(*routes),
      tag_(AllReduceTag(AllReduceKind::kTensorSquares, step, /*chunk=*/0,
                        /*node=*/0)),
      rank_(rank),
      squares_(routes_.size()) {
  for (int chunk = 0; chunk < routes_.chunk_count(); ++chunk) {
    auto& of_owner = squares_[routes_.OwnerOf(chunk)];
    of_owner.resize(of_owner.size() + ratios_.PartsIn(chunk));
  }
  for (int member = 0; member < routes_.size(); ++member) {
    if (member == rank_) continue;
    transfers_.push_back(receive(member, tag_, squares_[member].data(),
                                 BytesOf(squares_[member])));
  }
}

absl::StatusOr<std::vector<float>> TensorExchange::Exchange(
    const std::vector<std::vector<TensorSquares>>& own, const Send& send) {
  const int size = routes_.size();
  squares_[rank_].clear();
  for (const std::vector<TensorSquares>& of_chunk : own) {
    squares_[rank_].insert(squares_[rank_].end(), of_chunk.begin(),
                           of_chunk.end());
  }
  for (int member = 0; member < size; ++member) {
    if (member == rank_) continue;
    send(member, tag_, squares_[rank_].data(), BytesOf(squares_[rank_]));
  }
  for (Transfer& transfer : transfers_) {
    TRIBUTARY_RETURN_IF_ERROR(transfer->Wait());
  }
  std::vector<size_t> next(size);
  std::vector<std::vector<TensorSquares>> by_chunk(routes_.chunk_count());
  for (int chunk = 0; chunk < routes_.chunk_count(); ++chunk) {
    const int owner = routes_.OwnerOf(chunk);
    for (int part = 0; part < ratios_.PartsIn(chunk); ++part) {
      by_chunk[chunk].push_back(squares_[owner][next[owner]++]);
    }
  }
  return ratios_.Of(by_chunk);
}

}  // namespace tributary
