// The trust ratios of LAMB: see LambSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_PARAMETERS_TRUST_RATIOS_H_
#define TRIBUTARY_COMMON_PARAMETERS_TRUST_RATIOS_H_

#include <vector>

#include "absl/types/span.h"
#include "common/parameters/arena_layout.h"

namespace tributary {

// Sums of squares over the elements of one parameter in one chunk: of the
// weights before a step, and of the direction of the step (see
// Optimizer::DirectionAt). Each is added up as GradientSquares does it, in
// blocks that are counted from the first of these elements.
struct TensorSquares {
  double weights = 0;
  double direction = 0;
};

// Computes the trust ratios of a step from the sums of squares of all chunks. A
// trust ratio is the norm of a parameter's weights divided by the norm of the
// step's direction, by which the parameter's learning rate is multiplied.
// Parameters of group DECAY have trust ratios. Immutable.
class TrustRatios {
 public:
  explicit TrustRatios(const ArenaLayout& layout);

  // Returns the number of parameters that have a trust ratio.
  int count() const { return count_; }
  // Returns the number of those that have elements in the chunk.
  int PartsIn(int chunk) const { return parts_[chunk]; }
  // Returns the ratios of the parameters that have elements in the chunk.
  // `ratios` has count() elements.
  absl::Span<const float> RatiosIn(int chunk,
                                   absl::Span<const float> ratios) const {
    return ratios.subspan(first_[chunk], parts_[chunk]);
  }

  // Returns the trust ratio of each parameter, in the order of the arena: 1 if
  // one of the norms is 0, or if the ratio is not finite. `squares` has, for
  // each chunk, PartsIn(chunk) sums, which are added in the order of the
  // chunks.
  std::vector<float> Of(
      absl::Span<const std::vector<TensorSquares>> squares) const;

 private:
  int count_ = 0;
  // Indexed by chunk: the first parameter with elements in the chunk, counted
  // among the parameters that have a trust ratio, and the number of them.
  std::vector<int> first_;
  std::vector<int> parts_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_TRUST_RATIOS_H_
