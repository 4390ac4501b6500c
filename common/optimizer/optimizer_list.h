// The list of optimizers and the list of their rules. To add an optimizer, add
// its options to proto/job.proto, create a pair of files like sgd.h and sgd.cc,
// and add lines to both lists in this file.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_LIST_H_
#define TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_LIST_H_

#include <variant>

#include "common/optimizer/adadelta.h"
#include "common/optimizer/adagrad.h"
#include "common/optimizer/adam.h"
#include "common/optimizer/averaged.h"
#include "common/optimizer/element.h"
#include "common/optimizer/lion.h"
#include "common/optimizer/rmsprop.h"
#include "common/optimizer/sgd.h"

// Expands OPTIMIZER(field of OptimizerSpec.rule, its enum case, factory
// function) for each optimizer. All options messages must have a learning_rate.
#define TRIBUTARY_FOR_EACH_OPTIMIZER(OPTIMIZER) \
  OPTIMIZER(sgd, kSgd, MakeSgd)                 \
  OPTIMIZER(adam, kAdam, MakeAdam)              \
  OPTIMIZER(adamw, kAdamw, MakeAdamW)           \
  OPTIMIZER(adagrad, kAdagrad, MakeAdagrad)     \
  OPTIMIZER(rmsprop, kRmsprop, MakeRmsprop)     \
  OPTIMIZER(adadelta, kAdadelta, MakeAdadelta)  \
  OPTIMIZER(lion, kLion, MakeLion)              \
  OPTIMIZER(lamb, kLamb, MakeLamb)

// Expands RULE(type) for each rule (see element.h) without a moving average.
// The .cc file of a rule defines its UpdateElements (element_loops.h);
// averaged.cc defines those of all rules with a moving average.
#define TRIBUTARY_FOR_EACH_RULE(RULE) \
  RULE(PlainSgd)                      \
  RULE(MomentumSgd<false>)            \
  RULE(MomentumSgd<true>)             \
  RULE(AdamRule)                      \
  RULE(AdagradRule)                   \
  RULE(PlainRmsprop)                  \
  RULE(MomentumRmsprop)               \
  RULE(AdadeltaRule)                  \
  RULE(LionRule)

namespace tributary {

// RuleVariant<void, A, B>::Type is std::variant<A, B, Averaged<A>,
// Averaged<B>>. The first argument is ignored: the list that
// TRIBUTARY_FOR_EACH_RULE writes after it begins with a comma.
template <typename Ignored, typename... Rules>
struct RuleVariant {
  using Type = std::variant<Rules..., Averaged<Rules>...>;
};

// The rule of an optimizer with its coefficients at one step.
#define TRIBUTARY_NEXT_RULE(Rule) , Rule
using OptimizerRule =
    RuleVariant<void TRIBUTARY_FOR_EACH_RULE(TRIBUTARY_NEXT_RULE)>::Type;
#undef TRIBUTARY_NEXT_RULE

// UpdateElements applies a rule to arrays on the CPU.
#define TRIBUTARY_DECLARE_UPDATE_ELEMENTS(Rule)                       \
  void UpdateElements(const Rule& rule, const ElementArrays& arrays); \
  void UpdateElements(const Averaged<Rule>& rule, const ElementArrays& arrays);
TRIBUTARY_FOR_EACH_RULE(TRIBUTARY_DECLARE_UPDATE_ELEMENTS)
#undef TRIBUTARY_DECLARE_UPDATE_ELEMENTS

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_OPTIMIZER_LIST_H_
