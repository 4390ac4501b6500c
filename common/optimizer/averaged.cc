#include "common/optimizer/averaged.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/optimizer/element_loops.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/optimizer_list.h"

namespace tributary {

#define TRIBUTARY_DEFINE_AVERAGED(Rule) \
  TRIBUTARY_DEFINE_UPDATE_ELEMENTS(Averaged<Rule>)
TRIBUTARY_FOR_EACH_RULE(TRIBUTARY_DEFINE_AVERAGED)
#undef TRIBUTARY_DEFINE_AVERAGED

namespace {

template <typename Rule>
OptimizerRule WithDecay(const Rule& rule, float decay) {
  return Averaged<Rule>{rule, decay};
}

template <typename Rule>
OptimizerRule WithDecay(const Averaged<Rule>& rule, float /*decay*/) {
  return rule;
}

class AveragedOptimizer final : public Optimizer {
 public:
  AveragedOptimizer(std::unique_ptr<Optimizer> optimizer, double decay)
      : optimizer_(std::move(optimizer)), decay_(static_cast<float>(decay)) {}

  std::vector<std::string> slot_names() const override {
    std::vector<std::string> names = optimizer_->slot_names();
    names.push_back(kAverageSlot);
    return names;
  }

  std::optional<OptimizerRule> DirectionAt(int64_t step) const override {
    return optimizer_->DirectionAt(step);
  }

 private:
  OptimizerRule RuleAt(int64_t step, double learning_rate,
                       bool decays) const override {
    UpdateStep at;
    at.number = step;
    at.learning_rate = learning_rate;
    const OptimizerStep rules = optimizer_->At(at);
    return std::visit(
        [this](const auto& rule) { return WithDecay(rule, decay_); },
        decays ? rules.decayed : rules.plain);
  }

  const std::unique_ptr<Optimizer> optimizer_;
  const float decay_;
};

}  // namespace

std::unique_ptr<Optimizer> WithAverage(std::unique_ptr<Optimizer> optimizer,
                                       double decay) {
  return std::make_unique<AveragedOptimizer>(std::move(optimizer), decay);
}

}  // namespace tributary
