// Adadelta: see AdadeltaSpec in proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_ADADELTA_H_
#define TRIBUTARY_COMMON_OPTIMIZER_ADADELTA_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/optimizer/element.h"

namespace tributary {

class AdadeltaSpec;
class Optimizer;

// The rule of Adadelta for gradient g and weight w. Its slots (the optimizer's
// state for each weight) are s, the mean square of gradients, and u, the mean
// square of updates. With d = g + weight_decay w:
//   s = rho s + (1 - rho) d^2
//   e = sqrt(u + epsilon) / sqrt(s + epsilon) d
//   u = rho u + (1 - rho) e^2
//   w = w - learning_rate e
struct AdadeltaRule {
  static constexpr int kSlots = 2;
  float learning_rate;
  float rho;
  float rest;  // 1 - rho
  float epsilon;
  float weight_decay;

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* slots) const {
    const Real decayed = g + Real(weight_decay) * w;
    const Real square = Real(rho) * slots[0] + Real(rest) * (decayed * decayed);
    const Real update = SquareRoot(slots[1] + Real(epsilon)) /
                        SquareRoot(square + Real(epsilon)) * decayed;
    slots[0] = square;
    slots[1] = Real(rho) * slots[1] + Real(rest) * (update * update);
    return w - Real(learning_rate) * update;
  }

  template <typename Real>
  TRIBUTARY_ELEMENT AdadeltaRule TimesRate(Real factor) const {
    AdadeltaRule rule = *this;
    rule.learning_rate = static_cast<float>(Real(learning_rate) * factor);
    return rule;
  }
};

// Creates the optimizer Adadelta, whose state for each weight has the slots
// "square_avg" (mean square of gradients) and "acc_delta" (mean square of
// updates). Returns InvalidArgument for an invalid option. `path` is the path
// of the options in the job; error messages use it to name the field.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeAdadelta(
    const std::string& path, const AdadeltaSpec& spec);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_ADADELTA_H_
