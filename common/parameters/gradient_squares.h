// The sum of squares from which the global norm of a gradient is computed.
#ifndef TRIBUTARY_COMMON_PARAMETERS_GRADIENT_SQUARES_H_
#define TRIBUTARY_COMMON_PARAMETERS_GRADIENT_SQUARES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/numerics/vector_ops.h"
#include "common/parameters/parameter_table.h"

namespace tributary {

// Sums the squares of the gradients of an arena or a chunk in double precision.
// The result has the same bits for any division into blocks. Elements of group
// STATISTICS are not gradients and count as zero; but a non-finite one makes
// the sum NaN, as a non-finite gradient does, so that the check for non-finite
// steps detects both. Not thread-safe.
class GradientSquares {
 public:
  // `segments` ascend from the start of the range that is summed, and must
  // outlive this object.
  explicit GradientSquares(absl::Span<const ChunkSegment> segments)
      : segments_(segments) {}

  // Adds the next `count` elements: half[i] + other_half[i], or half[i] if
  // `other_half` is null. `count` is a multiple of 16 in all calls except the
  // last. Gaps between parameters must be zero.
  void Add(const float* half, const float* other_half, int64_t count);
  double Total() const {
    return TotalOf(gradients_.Total(), statistics_.Total());
  }
  // Combines the squares of gradients and of elements of group STATISTICS, each
  // summed as SumOfSquares does, by position in the arena.
  static double TotalOf(double gradients, double statistics) {
    return gradients + 0 * statistics;
  }

 private:
  const absl::Span<const ChunkSegment> segments_;
  size_t next_ = 0;       // The first segment that may end after position_.
  int64_t position_ = 0;  // Number of elements added so far.
  SumOfSquaresInPieces gradients_, statistics_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_GRADIENT_SQUARES_H_
