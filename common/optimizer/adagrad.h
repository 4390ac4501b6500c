// Adagrad: see AdagradSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_ADAGRAD_H_
#define TRIBUTARY_COMMON_OPTIMIZER_ADAGRAD_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/optimizer/element.h"

namespace tributary {

class AdagradSpec;
class Optimizer;

// The rule of Adagrad for gradient g and weight w. Its slot, its state for each
// weight, holds s, the sum of squares. With d = g + weight_decay w:
//   s = s + d^2
//   w = w - rate d / (sqrt(s) + epsilon)
struct AdagradRule {
  static constexpr int kSlots = 1;
  // learning_rate / (1 + step * rate_decay).
  float rate;
  float epsilon;
  float weight_decay;

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* slots) const {
    const Real decayed = g + Real(weight_decay) * w;
    const Real sum = slots[0] + decayed * decayed;
    slots[0] = sum;
    return w - Real(rate) * (decayed / (SquareRoot(sum) + Real(epsilon)));
  }

  template <typename Real>
  TRIBUTARY_ELEMENT AdagradRule TimesRate(Real factor) const {
    AdagradRule rule = *this;
    rule.rate = static_cast<float>(Real(rate) * factor);
    return rule;
  }
};

// Creates the optimizer Adagrad, whose state for each weight has the slot
// "sum". Returns InvalidArgument for an invalid option. `path` is the path of
// the options in the job; error messages use it to name the field.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdagrad(const std::string& path,
                                                       const AdagradSpec& spec);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_ADAGRAD_H_
