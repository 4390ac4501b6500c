#include "worker/exchange/norm_gate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "common/vector_ops.h"

namespace tributary {

NormGate::NormGate(const ArenaLayout* layout,
                   std::function<void(NodeChunk)> send)
    : layout_(layout),
      send_(std::move(send)),
      sums_(layout->chunk_count()),
      missing_(layout->chunk_count()) {}

void NormGate::Add(NodeChunk sum) {
  std::vector<NodeChunk> sums;
  {
    absl::MutexLock lock(&mu_);
    const int chunk = sum.chunk;
    sums_[chunk] = std::move(sum);
    if (--missing_ > 0) return;
    sums.swap(sums_);
  }
  double squares = 0;
  for (const NodeChunk& chunk : sums) {
    squares +=
        SumOfSquares(chunk.arena.get() + layout_->ChunkBegin(chunk.chunk),
                     layout_->ChunkSize(chunk.chunk));
  }
  const int64_t weight = std::max<int64_t>(sums[0].weight, 1);
  const double norm = std::sqrt(squares) / static_cast<double>(weight);
  for (auto it = sums.rbegin(); it != sums.rend(); ++it) {
    it->gradient_norm = norm;
    send_(std::move(*it));
  }
}

}  // namespace tributary
