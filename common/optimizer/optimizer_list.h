// The list of optimizers. To add an optimizer, add its options to
// proto/job.proto, create a pair of files like sgd.h and sgd.cc, and add its
// rules to OptimizerRule and a line to the list in this file.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_LIST_H_
#define TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_LIST_H_

#include <variant>

#include "common/optimizer/adam.h"
#include "common/optimizer/averaged.h"
#include "common/optimizer/sgd.h"

namespace tributary {

// The rule of an optimizer with its coefficients at one step; see element.h.
using OptimizerRule =
    std::variant<PlainSgd, MomentumSgd<false>, MomentumSgd<true>, AdamRule,
                 Averaged<PlainSgd>, Averaged<MomentumSgd<false>>,
                 Averaged<MomentumSgd<true>>, Averaged<AdamRule>>;

}  // namespace tributary

// Expands OPTIMIZER(field of OptimizerSpec.rule, its enum case, factory
// function) for each optimizer. All options messages must have a learning_rate.
#define TRIBUTARY_FOR_EACH_OPTIMIZER(OPTIMIZER) \
  OPTIMIZER(sgd, kSgd, MakeSgd)                 \
  OPTIMIZER(adam, kAdam, MakeAdam)              \
  OPTIMIZER(adamw, kAdamw, MakeAdamW)

#endif  // TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_LIST_H_
