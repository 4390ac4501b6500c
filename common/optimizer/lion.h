// Lion: see LionSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_LION_H_
#define TRIBUTARY_COMMON_OPTIMIZER_LION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/optimizer/element.h"

namespace tributary {

class LionSpec;
class Optimizer;

// The rule of Lion for gradient g and weight w. Its slot, its state for each
// weight, holds m, the momentum:
//   w = keep w - learning_rate sign(beta1 m + (1 - beta1) g)
//   m = beta2 m + (1 - beta2) g
struct LionRule {
  static constexpr int kSlots = 1;
  float learning_rate;
  float beta1;
  float rest1;  // 1 - beta1
  float beta2;
  float rest2;  // 1 - beta2
  float keep;   // Factor for w that applies the decoupled weight decay.
  // The weight decay times the learning rate; 1 - keep before rounding.
  float decay;

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* slots) const {
    const Real direction = Real(beta1) * slots[0] + Real(rest1) * g;
    slots[0] = Real(beta2) * slots[0] + Real(rest2) * g;
    return Real(keep) * w - Real(learning_rate) * Sign(direction);
  }

  template <typename Real>
  TRIBUTARY_ELEMENT LionRule TimesRate(Real factor) const {
    LionRule rule = *this;
    rule.keep = static_cast<float>(Real(1) - Real(decay) * factor);
    rule.learning_rate = static_cast<float>(Real(learning_rate) * factor);
    return rule;
  }

 private:
  // Returns -1, 0 or 1. Keeps a NaN, so that a gradient that is NaN shows in
  // the weights.
  template <typename Real>
  TRIBUTARY_ELEMENT static Real Sign(Real x) {
    if (x < Real(0)) return Real(-1);
    return Real(0) < x ? Real(1) : x;
  }
};

// Creates the optimizer Lion, whose state for each weight has the slot
// "exp_avg". Returns InvalidArgument for an invalid option. `path` is the path
// of the options in the job; error messages use it to name the field.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeLion(const std::string& path,
                                                    const LionSpec& spec);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_LION_H_
