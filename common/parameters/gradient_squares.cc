#include "common/parameters/gradient_squares.h"

#include <algorithm>
#include <cmath>

namespace tributary {
namespace {

// Returns the first offset at which the next parameter can begin. The lanes of
// the sums depend on the position in the arena.
int64_t EndWithGap(const ChunkSegment& segment) {
  return (segment.end + kArenaAlignment - 1) / kArenaAlignment *
         kArenaAlignment;
}

void AddTo(BlockSquares* total, const BlockSquares& block) {
  total->gradients += block.gradients;
  total->statistics += block.statistics;
}

// NaN if the statistics are not finite.
double TotalOfBoth(const BlockSquares& squares) {
  return squares.gradients + 0 * squares.statistics;
}

}  // namespace

double GradientSquares::Total() const {
  BlockSquares total = blocks_;
  AddTo(&total, OpenBlock());
  return TotalOfBoth(total);
}

double GradientSquares::TotalOf(absl::Span<const BlockSquares> blocks) {
  BlockSquares total;
  for (const BlockSquares& block : blocks) AddTo(&total, block);
  return TotalOfBoth(total);
}

void GradientSquares::Add(const float* half, const float* other_half,
                          int64_t count) {
  const int64_t start = position_, end = position_ + count;
  while (position_ < end) {
    while (next_ < segments_.size() &&
           (segments_[next_].group != STATISTICS ||
            EndWithGap(segments_[next_]) <= position_)) {
      ++next_;
    }
    const bool any = next_ < segments_.size();
    const bool inside = any && segments_[next_].begin <= position_;
    const int64_t stop = !any     ? end
                         : inside ? EndWithGap(segments_[next_])
                                  : segments_[next_].begin;
    const int64_t from = position_ - start;
    const int64_t block_end = (position_ / kSquareBlock + 1) * kSquareBlock;
    position_ = std::min({stop, end, block_end});
    const int64_t size = position_ - start - from;
    SumOfSquaresInPieces& squares = inside ? statistics_ : gradients_;
    if (other_half == nullptr) {
      squares.Add(half + from, size);
    } else {
      squares.AddSum(half + from, other_half + from, size);
    }
    if (position_ == block_end) {
      AddTo(&blocks_, OpenBlock());
      gradients_ = statistics_ = SumOfSquaresInPieces();
    }
  }
}

double MeanGradientNorm(double squares, int64_t sample_count) {
  return std::sqrt(squares) /
         static_cast<double>(std::max<int64_t>(sample_count, 1));
}

}  // namespace tributary
