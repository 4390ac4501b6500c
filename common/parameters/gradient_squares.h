// The sum of squares from which the global norm of a gradient is computed.
#ifndef TRIBUTARY_COMMON_PARAMETERS_GRADIENT_SQUARES_H_
#define TRIBUTARY_COMMON_PARAMETERS_GRADIENT_SQUARES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/numerics/sum_of_squares.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/block_squares.h"

namespace tributary {

// Sums the squares of the gradients in a range of elements: an arena (one
// buffer with the gradients of all parameters) or a chunk (a slice of the
// arena). Sums in double precision and in blocks of kSquareBlock elements,
// counted from the start of the range. The result has the same bits however the
// elements are divided among calls of Add. Running statistics (elements of
// group STATISTICS) are not gradients and count as zero, but if one of them is
// not finite, the sum is NaN. A check for a non-finite sum therefore detects
// non-finite gradients and non-finite statistics. Not thread-safe.
class GradientSquares {
 public:
  // `segments` are the segments of the range of elements to sum, in ascending
  // order and relative to the start of the range. They must outlive this
  // object.
  explicit GradientSquares(absl::Span<const ChunkSegment> segments)
      : segments_(segments) {}

  // Adds the squares of the next `count` gradients, which are half[i] +
  // other_half[i], or half[i] if `other_half` is null. `count` must be a
  // multiple of 16 in all calls except the last. Elements in the alignment gaps
  // between parameters must be zero.
  void Add(const float* half, const float* other_half, int64_t count);
  double Total() const;
  // Returns what Total returns for a range of elements, from the sums of its
  // blocks in ascending order. The last block may have fewer elements than the
  // others.
  static double TotalOf(absl::Span<const BlockSquares> blocks);

 private:
  BlockSquares OpenBlock() const {
    return {gradients_.Total(), statistics_.Total()};
  }

  const absl::Span<const ChunkSegment> segments_;
  size_t next_ = 0;       // The first segment that may end after position_.
  int64_t position_ = 0;  // Number of elements added so far.
  BlockSquares blocks_;   // The sums of all complete blocks.
  // The sums of the block that contains position_, over its elements added so
  // far.
  SumOfSquaresInPieces gradients_, statistics_;
};

// Returns the norm of the mean gradient, from the sum of the squares of the
// gradient sum. `sample_count` is the number of samples in the gradient sum; 0
// counts as 1.
double MeanGradientNorm(double squares, int64_t sample_count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_GRADIENT_SQUARES_H_
