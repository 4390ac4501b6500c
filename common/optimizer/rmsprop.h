// RMSprop: see RmspropSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_RMSPROP_H_
#define TRIBUTARY_COMMON_OPTIMIZER_RMSPROP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/optimizer/element.h"

namespace tributary {

class Optimizer;
class RmspropSpec;

// RMSprop without momentum, for gradient g and weight w. The rule's slot, its
// state for each weight, holds s, the mean square. With d = g + weight_decay w:
//   s = alpha s + (1 - alpha) d^2
//   w = w - learning_rate d / (sqrt(s) + epsilon)
struct PlainRmsprop {
  static constexpr int kSlots = 1;
  float learning_rate;
  float alpha;
  float rest;  // 1 - alpha
  float epsilon;
  float weight_decay;

  // Changes the mean square, and returns d / (sqrt(s) + epsilon).
  template <typename Real>
  TRIBUTARY_ELEMENT Real Scaled(Real g, Real w, Real* slots) const {
    const Real decayed = g + Real(weight_decay) * w;
    const Real square =
        Real(alpha) * slots[0] + Real(rest) * (decayed * decayed);
    slots[0] = square;
    return decayed / (SquareRoot(square) + Real(epsilon));
  }

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* slots) const {
    return w - Real(learning_rate) * Scaled(g, w, slots);
  }

  template <typename Real>
  TRIBUTARY_ELEMENT PlainRmsprop TimesRate(Real factor) const {
    PlainRmsprop rule = *this;
    rule.learning_rate = static_cast<float>(Real(learning_rate) * factor);
    return rule;
  }
};

// RMSprop with momentum: v = momentum v + d / (sqrt(s) + epsilon), then w = w -
// learning_rate v. The slots are s and the velocity v.
struct MomentumRmsprop {
  static constexpr int kSlots = 2;
  PlainRmsprop plain;
  float momentum;

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* slots) const {
    const Real velocity = Real(momentum) * slots[1] + plain.Scaled(g, w, slots);
    slots[1] = velocity;
    return w - Real(plain.learning_rate) * velocity;
  }

  template <typename Real>
  TRIBUTARY_ELEMENT MomentumRmsprop TimesRate(Real factor) const {
    return {plain.TimesRate(factor), momentum};
  }
};

// Creates the optimizer RMSprop. Its state for each weight has the slot
// "square_avg" and, with momentum, the slot "momentum_buffer". Returns
// InvalidArgument for an invalid option. `path` is the path of the options in
// the job; error messages use it to name the field.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeRmsprop(const std::string& path,
                                                       const RmspropSpec& spec);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_RMSPROP_H_
