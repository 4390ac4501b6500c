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
#include "common/optimizer/optimizer_list.h"
#include "common/parameters/parameter_table.h"
#include "proto/job.pb.h"

namespace tributary {

// How far a step moves a parameter of group STATISTICS towards what was
// observed: what PyTorch's batch norm calls momentum. A larger rate follows the
// weights faster, a smaller one averages more steps.
inline constexpr double kStatisticsRate = 0.1;

// The numbers of one step's update, the same for all chunks: see UpdateRecipe.
struct UpdateStep {
  // What the sum of gradients is multiplied with to be the gradient.
  float gradient_scale = 1;
  // The same for segments of group STATISTICS, whose rule is
  //   w -= statistics_scale * sum
  // whatever the optimizer: the rate divided by the sum's weight. Their slots
  // are not used.
  float statistics_scale = 0;
  double learning_rate = 0;
  // Of the updates that the state has seen, counted from 0.
  int64_t number = 0;
};

// What one update reads and writes. All arrays are indexed from the start of
// the chunk, borrowed for the call, and must not overlap one another.
struct UpdateArguments {
  // Sum of the batch's gradients; never written.
  const float* gradient_sum = nullptr;
  // If not null, the other half of the sum: the gradient is then
  // (gradient_sum[i] + other_gradient_sum[i]) * gradient_scale, with the same
  // bits as if Sum2 had added the halves first.
  const float* other_gradient_sum = nullptr;
  // Weights of the step's version, and where those of the next one go.
  const float* weights = nullptr;
  float* new_weights = nullptr;
  // slots() arrays of the rule's state, updated in place. All zero before the
  // first step.
  absl::Span<float* const> slots;
  // What to update: elements outside of the segments are left alone, in all
  // arrays. Weight decay applies to segments of group DECAY.
  absl::Span<const ChunkSegment> segments;
};

// An optimizer at one step: what is computed with for all elements. To be made
// once for many updates: Adam's takes as long as the update of 100 elements.
struct OptimizerStep {
  // For elements to which weight decay applies, and for others: the same rule.
  OptimizerRule decayed, plain;
  // As in UpdateStep.
  float gradient_scale = 1;
  float statistics_scale = 0;

  void Update(const UpdateArguments& arguments) const;
};

// A rule without state of its own: the state is the caller's, in slots. The
// result is element by element a fixed sequence of float32 operations, so it
// has the same bits on every x86-64 and for any division into chunks. Denormal
// numbers count as zero (see flush_denormals.h). Const and safe from any
// thread; a call takes as long as memory takes to deliver the arrays.
class Optimizer {
 public:
  // InvalidArgument, naming the field, if `spec` has no rule or an option that
  // is out of range.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(
      const OptimizerSpec& spec);

  virtual ~Optimizer() = default;

  // The floats of state for each weight, in the order of the rule's slots, as
  // PyTorch's optimizers call them.
  virtual std::vector<std::string> slot_names() const = 0;
  int slots() const { return static_cast<int>(slot_names().size()); }

  OptimizerStep At(const UpdateStep& step) const;

 private:
  // For elements to which weight decay applies or does not: the same rule for
  // both and at every step, with as many slots as slot_names().
  virtual OptimizerRule RuleAt(int64_t step, double learning_rate,
                               bool decays) const = 0;
};

// What the options call learning_rate, from which schedules start; 0 without a
// rule.
double PeakLearningRate(const OptimizerSpec& spec);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_H_
