// The update rules that the servers run, each in one pass over a chunk. See
// OptimizerSpec in proto/job.proto for the formulas.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_H_
#define TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/optimizer/optimizer_factors.h"
#include "common/parameters/parameter_table.h"
#include "proto/job.pb.h"

namespace tributary {

// How far a step moves a parameter of group STATISTICS towards what was
// observed: what PyTorch's batch norm calls momentum. A larger rate follows the
// weights faster, a smaller one averages more steps.
inline constexpr double kStatisticsRate = 0.1;

// What one update reads and writes. All arrays are indexed from the start of
// the chunk, borrowed for the call, and must not overlap one another.
struct UpdateArguments {
  // Sum of the batch's gradients; never written.
  const float* gradient_sum = nullptr;
  // If not null, the other half of the sum: the gradient is then
  // (gradient_sum[i] + other_gradient_sum[i]) * gradient_scale, with the same
  // bits as if Sum2 had added the halves first.
  const float* other_gradient_sum = nullptr;
  // What the sum is multiplied with to be the gradient: GradientScale().
  float gradient_scale = 1;
  // The same for segments of group STATISTICS, whose rule is
  //   w -= statistics_scale * sum
  // whatever the optimizer: the rate divided by the sum's weight. Their slots
  // are not used.
  float statistics_scale = 0;
  // Weights of version `step`, and where those of `step` + 1 go.
  const float* weights = nullptr;
  float* new_weights = nullptr;
  // slots() arrays of the rule's state, updated in place. All zero before the
  // first step.
  absl::Span<float* const> slots;
  // What to update: elements outside of the segments are left alone, in all
  // arrays. Weight decay applies to segments of group DECAY.
  absl::Span<const ChunkSegment> segments;
  // Of this step: LearningRateAt().
  double learning_rate = 0;
  // Counted from 0.
  int64_t step = 0;
};

// A rule without state of its own: the state is the caller's, in slots. The
// result is element by element a fixed sequence of float32 operations, so it
// has the same bits on every x86-64 and for any division into chunks. Denormal
// numbers count as zero (see flush_denormals.h). Const and safe from any
// thread; a call takes as long as memory takes to deliver the arrays.
class Optimizer {
 public:
  // InvalidArgument if no rule is set. `spec` must be valid otherwise.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(
      const OptimizerSpec& spec);

  virtual ~Optimizer() = default;

  // The floats of state for each weight, as PyTorch's optimizers call them: SGD
  // "momentum_buffer", or none without momentum; Adam and AdamW "exp_avg"
  // (first moment) and "exp_avg_sq" (second moment).
  virtual std::vector<std::string> slot_names() const = 0;
  int slots() const { return static_cast<int>(slot_names().size()); }

  void Update(const UpdateArguments& arguments) const;

  // What Update computes with at a step, for elements to which weight decay
  // applies or does not: for those who compute elsewhere, to the same bits.
  virtual OptimizerFactors FactorsAt(int64_t step, double learning_rate,
                                     bool decays) const = 0;

 private:
  // Updates arguments.segments but for those of group STATISTICS.
  virtual void UpdateByGradient(const UpdateArguments& arguments) const = 0;
};

// What turns the sum of a batch's gradients into the gradient: 1 / weight, and
// times clip_norm / norm where the norm is above clip_norm (PyTorch's rule,
// which adds 1e-6 to the norm). `sample_count`: samples or tokens in the batch,
// at least 1. `norm`: of the mean gradient; unused if `clip_norm` is 0.
float GradientScale(int64_t sample_count, double clip_norm, double norm);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_H_
