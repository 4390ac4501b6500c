// What the global norm of a gradient is made of.
#ifndef TRIBUTARY_COMMON_PARAMETERS_GRADIENT_SQUARES_H_
#define TRIBUTARY_COMMON_PARAMETERS_GRADIENT_SQUARES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/numerics/vector_ops.h"
#include "common/parameters/parameter_table.h"

namespace tributary {

// The sum of the squares of an arena's or a chunk's gradients, in double
// precision, with the same bits for any division into blocks. Elements of group
// STATISTICS are no gradients and count as zero; but if one is not finite, the
// sum is NaN, as it is for a gradient, so that whoever looks for steps gone
// wrong finds those too. Not thread-safe.
class GradientSquares {
 public:
  // `segments`: from the start of what is added up, rising; beyond the
  // lifetime of this object.
  explicit GradientSquares(absl::Span<const ChunkSegment> segments)
      : segments_(segments) {}

  // The next `count` elements, in two halves to be added unless `other_half` is
  // null. A multiple of 16 in all calls but the last. Gaps must be zero.
  void Add(const float* half, const float* other_half, int64_t count);
  double Total() const {
    return TotalOf(gradients_.Total(), statistics_.Total());
  }
  // Of the squares of gradients and of what has group STATISTICS, each summed
  // up as SumOfSquares does, by place in the arena.
  static double TotalOf(double gradients, double statistics) {
    return gradients + 0 * statistics;
  }

 private:
  const absl::Span<const ChunkSegment> segments_;
  size_t next_ = 0;       // The first segment that may reach beyond position_.
  int64_t position_ = 0;  // Elements added so far.
  SumOfSquaresInPieces gradients_, statistics_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_GRADIENT_SQUARES_H_
