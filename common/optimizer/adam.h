// Adam, AdamW and LAMB: see AdamSpec and LambSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_ADAM_H_
#define TRIBUTARY_COMMON_OPTIMIZER_ADAM_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/optimizer/element.h"

namespace tributary {

class AdamSpec;
class LambSpec;
class Optimizer;

// The rule of Adam, AdamW and LAMB for gradient g and weight w. Its slots (the
// optimizer's state for each weight) are m and v, the first and the second
// moment. With d = g + weight_decay w:
//   m = beta1 m + (1 - beta1) d;  v = beta2 v + (1 - beta2) d^2
//   w = keep w - step_size m / (sqrt(v) root_scale + epsilon)
// A step of LAMB is a step of AdamW whose learning rate is multiplied by the
// trust ratio.
struct AdamRule {
  static constexpr int kSlots = 2;
  float beta1;
  float rest1;  // 1 - beta1
  float beta2;
  float rest2;  // 1 - beta2
  float epsilon;
  // Factor for w that applies the decoupled weight decay. 1 for Adam.
  float keep;
  // The decoupled weight decay times the learning rate; 1 - keep before
  // rounding.
  float decay;
  // Weight decay that is added to the gradient. 0 for AdamW.
  float weight_decay;
  // The learning rate with bias correction: learning_rate / (1 - beta1^t),
  // where t is the number of the update, counted from 1.
  float step_size;
  // The bias correction of sqrt(v): 1 / sqrt(1 - beta2^t), with the same t.
  float root_scale;

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* slots) const {
    const Real decayed = g + Real(weight_decay) * w;
    const Real first = Real(beta1) * slots[0] + Real(rest1) * decayed;
    const Real second =
        Real(beta2) * slots[1] + Real(rest2) * (decayed * decayed);
    slots[0] = first;
    slots[1] = second;
    const Real root = SquareRoot(second) * Real(root_scale) + Real(epsilon);
    return Real(keep) * w - Real(step_size) * (first / root);
  }

  template <typename Real>
  TRIBUTARY_ELEMENT AdamRule TimesRate(Real factor) const {
    AdamRule rule = *this;
    rule.keep = static_cast<float>(Real(1) - Real(decay) * factor);
    rule.step_size = static_cast<float>(Real(step_size) * factor);
    return rule;
  }
};

// These functions create the optimizers Adam, AdamW and LAMB, whose state for
// each weight has the slots "exp_avg" (first moment) and "exp_avg_sq" (second
// moment). They return InvalidArgument for an invalid option. `path` is the
// path of the options in the job; error messages use it to name the field.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdam(const std::string& path,
                                                    const AdamSpec& spec);
absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdamW(const std::string& path,
                                                     const AdamSpec& spec);
absl::StatusOr<std::unique_ptr<Optimizer>> MakeLamb(const std::string& path,
                                                    const LambSpec& spec);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_ADAM_H_
