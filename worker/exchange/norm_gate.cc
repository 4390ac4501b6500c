#include "worker/exchange/norm_gate.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/parameters/gradient_squares.h"

namespace tributary {
namespace {

// Leaves are not rounded yet, and rounding a sum again does not change it.
double SumOfRoundedSquares(WireDtype dtype, const float* x, int64_t count,
                           absl::Span<const ChunkSegment> segments) {
  GradientSquares squares(segments);
  if (dtype == ExchangeSpec::FLOAT32) {
    squares.Add(x, /*other_half=*/nullptr, count);
    return squares.Total();
  }
  constexpr int64_t kBlock = 1024;
  float rounded[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    RoundedCopy(dtype, x + begin, rounded, size);
    squares.Add(rounded, /*other_half=*/nullptr, size);
  }
  return squares.Total();
}

}  // namespace

NormGate::NormGate(const ArenaLayout* layout, WireDtype dtype,
                   std::function<void(NodeChunk)> send)
    : layout_(layout),
      dtype_(dtype),
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
    squares += SumOfRoundedSquares(
        dtype_, chunk.arena.get() + layout_->ChunkBegin(chunk.chunk),
        layout_->ChunkSize(chunk.chunk), layout_->ChunkSegments(chunk.chunk));
  }
  const double norm = MeanGradientNorm(squares, sums[0].sample_count);
  for (auto it = sums.rbegin(); it != sums.rend(); ++it) {
    it->gradient_norm = norm;
    send_(std::move(*it));
  }
}

}  // namespace tributary
