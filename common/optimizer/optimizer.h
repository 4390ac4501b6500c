// The optimizers. Each of them updates a chunk (a slice of the model's
// parameters) in one pass over memory. OptimizerSpec in proto/job.proto states
// their formulas.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_H_
#define TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/optimizer/optimizer_list.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"

namespace tributary {

// The rate at which running statistics (parameters of group STATISTICS, such as
// the running means of batch normalization) change: a step moves a value
// towards the observed value by this fraction of the difference. PyTorch's
// batch norm calls it momentum. A larger rate follows changes faster; a smaller
// rate averages over more steps.
inline constexpr double kStatisticsRate = 0.1;

// The parameters of the update of one step, which are the same for all chunks.
// UpdateRecipe computes them.
struct UpdateStep {
  // The gradient is the sum of gradients times this scale.
  float gradient_scale = 1;
  // The scale for running statistics (segments of group STATISTICS), whose rule
  // is
  //   w -= statistics_scale * gradient_sum
  // for every optimizer. It is the statistics rate of UpdateRecipe divided by
  // the number of samples in the sum. The optimizer's state of these segments
  // is not used.
  float statistics_scale = 0;
  double learning_rate = 0;
  // Number of updates that have been applied before this one.
  int64_t number = 0;
};

// The arrays of one update of a chunk. They are indexed from the start of the
// chunk, borrowed for the call, and must not overlap.
struct UpdateArguments {
  // Sum of the batch's gradients; never written.
  const float* gradient_sum = nullptr;
  // If not null, the second part of the sum of the batch's gradients. The
  // gradient is then (gradient_sum[i] + other_gradient_sum[i]) *
  // gradient_scale, with the same bits as if Sum2 had added the two parts
  // first.
  const float* other_gradient_sum = nullptr;
  // `weights` are the weights before the step. The weights after the step are
  // written to `new_weights`.
  const float* weights = nullptr;
  float* new_weights = nullptr;
  // The state of the optimizer: one array for each of its slots (see
  // Optimizer::slot_names). The arrays are updated in place. All their elements
  // are zero before the first step.
  absl::Span<float* const> slots;
  // The segments to update. Elements outside of them are unchanged in all
  // arrays. Weight decay applies to segments of group DECAY. The learning rate
  // of a segment is the step's learning rate times the segment's
  // learning_rate_factor.
  absl::Span<const ChunkSegment> segments;
};

// An optimizer at one step, with the coefficients for all elements. Use one
// object for many updates: for Adam, creating the object takes as long as
// updating 100 elements.
struct OptimizerStep {
  // The rule for elements with weight decay, and the rule for elements without
  // weight decay.
  OptimizerRule decayed, plain;
  // See the fields of UpdateStep with the same names.
  float gradient_scale = 1;
  float statistics_scale = 0;

  void Update(const UpdateArguments& arguments) const;
};

// An optimizer's update rule. It has no state of its own: the caller passes the
// optimizer's state in arrays, the slots. Each element is computed by a fixed
// sequence of float32 operations, so the result has the same bits on every
// x86-64 processor and for any division into chunks. Denormal numbers are
// treated as zero (see flush_denormals.h). Immutable and thread-safe. The
// memory bandwidth limits the speed of an update.
class Optimizer {
 public:
  // Returns InvalidArgument, naming the field, if `spec` has no rule or an
  // option is out of range.
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(
      const OptimizerSpec& spec);

  virtual ~Optimizer() = default;

  // Returns the names of the slots, in the order of UpdateArguments::slots.
  // Each slot is one float of state for each weight. PyTorch's SGD and Adam use
  // the same names.
  virtual std::vector<std::string> slot_names() const = 0;
  int slots() const { return static_cast<int>(slot_names().size()); }

  OptimizerStep At(const UpdateStep& step) const;

  // If the learning rate of each parameter with weight decay is multiplied by
  // the parameter's trust ratio (see TrustRatios): returns the rule that
  // computes, instead of new weights, the direction of the step whose norm
  // divides that of the weights. It has at most the first slots() slots, and
  // does not depend on the learning rate. `step` is counted from 0. Nullopt for
  // all other optimizers.
  virtual std::optional<OptimizerRule> DirectionAt(int64_t /*step*/) const {
    return std::nullopt;
  }
  bool has_trust_ratios() const { return DirectionAt(0).has_value(); }

 private:
  // Returns the update rule with its coefficients at step `step`, counted from
  // 0. `decays` is true for elements with weight decay, and false for all
  // others. The rule must have the same type at every step, and one slot for
  // each name in slot_names().
  virtual OptimizerRule RuleAt(int64_t step, double learning_rate,
                               bool decays) const = 0;

  // Returns InvalidArgument, naming the field `path`, if the update is not
  // meaningful with `factor` times the learning rate of the job. `factor` is
  // the learning_rate_factor of a group of parameters, and is in range.
  virtual absl::Status ValidateRateFactor(const std::string& /*path*/,
                                          double /*factor*/) const {
    return absl::OkStatus();
  }
};

// Returns the name of the rule in `spec`, such as "adamw": the name of its
// field in OptimizerSpec. Returns an empty string if `spec` has no rule.
std::string OptimizerName(const OptimizerSpec& spec);

// Returns the option learning_rate of the rule in `spec`: the largest learning
// rate, which the schedule reaches after the warmup. Returns 0 if `spec` has no
// rule, or that of a program, which has a learning rate of its own.
double PeakLearningRate(const OptimizerSpec& spec);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_H_
