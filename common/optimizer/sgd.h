// Stochastic gradient descent: see SgdSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_SGD_H_
#define TRIBUTARY_COMMON_OPTIMIZER_SGD_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/optimizer/element.h"

namespace tributary {

class Optimizer;
class SgdSpec;

// SGD without momentum: w -= learning_rate * (g + weight_decay * w).
struct PlainSgd {
  static constexpr int kSlots = 0;
  float learning_rate;
  float weight_decay;

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* /*slots*/) const {
    return w - Real(learning_rate) * (g + Real(weight_decay) * w);
  }

  template <typename Real>
  TRIBUTARY_ELEMENT PlainSgd TimesRate(Real factor) const {
    PlainSgd rule = *this;
    rule.learning_rate = static_cast<float>(Real(learning_rate) * factor);
    return rule;
  }
};

// SGD with momentum: v = momentum * v + g + weight_decay * w, then w -=
// learning_rate * v. With kNesterov, the second assignment is w -=
// learning_rate * (g + weight_decay * w + momentum * v). The rule's slot, its
// state for each weight, holds v.
template <bool kNesterov>
struct MomentumSgd {
  static constexpr int kSlots = 1;
  float learning_rate;
  float momentum;
  float weight_decay;

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* slots) const {
    const Real decayed = g + Real(weight_decay) * w;
    const Real velocity = Real(momentum) * slots[0] + decayed;
    slots[0] = velocity;
    const Real direction =
        kNesterov ? decayed + Real(momentum) * velocity : velocity;
    return w - Real(learning_rate) * direction;
  }

  template <typename Real>
  TRIBUTARY_ELEMENT MomentumSgd TimesRate(Real factor) const {
    MomentumSgd rule = *this;
    rule.learning_rate = static_cast<float>(Real(learning_rate) * factor);
    return rule;
  }
};

// Creates the optimizer SGD. With momentum, its state for each weight has the
// slot "momentum_buffer"; if the momentum is 0, it has no state. Returns
// InvalidArgument for an invalid option. `path` is the path of the options in
// the job; error messages use it to name the field.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeSgd(const std::string& path,
                                                   const SgdSpec& spec);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_SGD_H_
