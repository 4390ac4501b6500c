// The moving average of the weights: see OptimizerSpec.average_decay in
// proto/job.proto.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_AVERAGED_H_
#define TRIBUTARY_COMMON_OPTIMIZER_AVERAGED_H_

#include <memory>

#include "common/optimizer/element.h"

namespace tributary {

class Optimizer;

// Name of the slot (a part of the optimizer's state for each weight) that holds
// the moving average of the weight, minus the weight.
inline constexpr char kAverageSlot[] = "average_offset";

// The optimizer rule `Rule`, with an exponential moving average of the weights.
// The last slot (a part of the optimizer's state for each weight) holds d, the
// average minus the weight. When the rule changes w to w',
//   average' = decay (w + d) + (1 - decay) w'
// and therefore d' = average' - w' = decay (d + (w - w')).
//
// Storing the offset d has advantages over storing the average. Like all slots,
// d begins with 0. It stays 0, and the average therefore stays equal to the
// weights, where no rule runs: in frozen parameters and in running statistics.
// And because d is small compared with the weight, float32 can represent
// changes of the average that would be lost if they were added to the average
// itself.
template <typename Rule>
struct Averaged {
  static constexpr int kSlots = Rule::kSlots + 1;
  Rule rule;
  float decay;

  template <typename Real>
  TRIBUTARY_ELEMENT Real Update(Real g, Real w, Real* slots) const {
    const Real updated = rule.Update(g, w, slots);
    slots[Rule::kSlots] = Real(decay) * (slots[Rule::kSlots] + (w - updated));
    return updated;
  }

  template <typename Real>
  TRIBUTARY_ELEMENT Averaged TimesRate(Real factor) const {
    return {rule.TimesRate(factor), decay};
  }
};

// Returns an optimizer that also keeps a moving average of the weights. A
// further slot of its state, kAverageSlot, holds the average minus the weight,
// and follows the slots of `optimizer`. The new optimizer computes weights with
// the same bits as `optimizer`. `decay` is in (0, 1).
std::unique_ptr<Optimizer> WithAverage(std::unique_ptr<Optimizer> optimizer,
                                       double decay);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_AVERAGED_H_
