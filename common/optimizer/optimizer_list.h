// The list of optimizers. A new one adds, besides a pair of files like sgd.h
// and its options in proto/job.proto, its rules and a line here.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_LIST_H_
#define TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_LIST_H_

#include <variant>

#include "common/optimizer/adam.h"
#include "common/optimizer/sgd.h"

namespace tributary {

// The formula of a step, with its numbers: see element.h.
using OptimizerRule =
    std::variant<PlainSgd, MomentumSgd<false>, MomentumSgd<true>, AdamRule>;

}  // namespace tributary

// OPTIMIZER(field of OptimizerSpec.rule, its case, maker) for each. All options
// have a learning_rate.
#define TRIBUTARY_FOR_EACH_OPTIMIZER(OPTIMIZER) \
  OPTIMIZER(sgd, kSgd, MakeSgd)                 \
  OPTIMIZER(adam, kAdam, MakeAdam)              \
  OPTIMIZER(adamw, kAdamw, MakeAdamW)

#endif  // TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_LIST_H_
