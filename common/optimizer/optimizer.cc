#include "common/optimizer/optimizer.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/numerics/flush_denormals.h"
#include "common/optimizer/element_loops.h"
#include "common/optimizer/mean_gradient.h"
#include "common/parameters/arena_layout.h"

namespace tributary {
namespace {

TRIBUTARY_DEFINE_UPDATE_ELEMENTS(StatisticsRule)

template <typename Spec>
absl::Status ValidateLearningRate(const std::string& path, const Spec& spec) {
  if (!spec.has_learning_rate()) return Required(path + ".learning_rate");
  return Positive(path + ".learning_rate", spec.learning_rate());
}

// Lists the rules, as in "a, b or c".
std::string RuleNames() {
  const auto* rules = OptimizerSpec::descriptor()->FindOneofByName("rule");
  std::string names = rules->field(0)->name();
  for (int i = 1; i < rules->field_count(); ++i) {
    absl::StrAppend(&names, i + 1 < rules->field_count() ? ", " : " or ",
                    rules->field(i)->name());
  }
  return names;
}

// Returns the field of the job that contains group `i`.
std::string GroupPath(int i) {
  return absl::StrCat("optimizer.group[", i, "]");
}

absl::Status ValidateGroup(const std::string& path,
                           const ParameterGroupSpec& group) {
  if (group.parameters().empty()) {
    return Error(path + ".parameters",
                 "is required: names of parameters, such as 'output.*'");
  }
  const double factor = group.learning_rate_factor();
  if (!(factor > 0 && factor <= kMaxLearningRateFactor)) {
    return Error(path + ".learning_rate_factor", factor,
                 " is not above 0 and at most ", kMaxLearningRateFactor);
  }
  return absl::OkStatus();
}

// Creates the optimizer of spec.rule, without an average.
absl::StatusOr<std::unique_ptr<Optimizer>> CreateRule(
    const OptimizerSpec& spec) {
  switch (spec.rule_case()) {
#define TRIBUTARY_CREATE(field, Case, Make)                       \
  case OptimizerSpec::Case:                                       \
    TRIBUTARY_RETURN_IF_ERROR(                                    \
        ValidateLearningRate("optimizer." #field, spec.field())); \
    return Make("optimizer." #field, spec.field());
    TRIBUTARY_FOR_EACH_OPTIMIZER(TRIBUTARY_CREATE)
#undef TRIBUTARY_CREATE
    case OptimizerSpec::kProgram:
      return MakeMeanGradient("optimizer.program", spec.program());
    case OptimizerSpec::RULE_NOT_SET:
      break;
  }
  return Error("optimizer", "is required: set ", RuleNames());
}

}  // namespace

void OptimizerStep::Update(const UpdateArguments& arguments) const {
  const FlushDenormals flush;
  ElementArrays arrays;
  arrays.gradient_sum = arguments.gradient_sum;
  arrays.other_gradient_sum = arguments.other_gradient_sum;
  arrays.weights = arguments.weights;
  arrays.new_weights = arguments.new_weights;
  arrays.slots = arguments.slots.data();
  for (const ChunkSegment& segment : arguments.segments) {
    arrays.begin = segment.begin;
    arrays.end = segment.end;
    if (segment.group == STATISTICS) {
      arrays.gradient_scale = statistics_scale;
      UpdateElements(StatisticsRule(), arrays);
      continue;
    }
    arrays.gradient_scale = gradient_scale;
    const float factor = segment.learning_rate_factor;
    std::visit(
        [&](const auto& rule) {
          if (factor == 1) {
            UpdateElements(rule, arrays);
          } else {
            UpdateElements(rule.TimesRate(factor), arrays);
          }
        },
        segment.group == DECAY ? decayed : plain);
  }
}

OptimizerStep Optimizer::At(const UpdateStep& step) const {
  return {RuleAt(step.number, step.learning_rate, /*decays=*/true),
          RuleAt(step.number, step.learning_rate, /*decays=*/false),
          step.gradient_scale, step.statistics_scale};
}

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(
    const OptimizerSpec& spec) {
  for (int i = 0; i < spec.group_size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(ValidateGroup(GroupPath(i), spec.group(i)));
  }
  TRIBUTARY_RETURN_IF_ERROR(
      BelowOne("optimizer.average_decay", spec.average_decay()));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             CreateRule(spec));
  for (int i = 0; i < spec.group_size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(
        optimizer->ValidateRateFactor(GroupPath(i) + ".learning_rate_factor",
                                      spec.group(i).learning_rate_factor()));
  }
  if (spec.average_decay() == 0) return optimizer;
  return WithAverage(std::move(optimizer), spec.average_decay());
}

std::string OptimizerName(const OptimizerSpec& spec) {
  switch (spec.rule_case()) {
#define TRIBUTARY_NAME(field, Case, Make) \
  case OptimizerSpec::Case:               \
    return #field;
    TRIBUTARY_FOR_EACH_OPTIMIZER(TRIBUTARY_NAME)
#undef TRIBUTARY_NAME
    case OptimizerSpec::kProgram:
      return "program";
    case OptimizerSpec::RULE_NOT_SET:
      break;
  }
  return "";
}

double PeakLearningRate(const OptimizerSpec& spec) {
  switch (spec.rule_case()) {
#define TRIBUTARY_LEARNING_RATE(field, Case, Make) \
  case OptimizerSpec::Case:                        \
    return spec.field().learning_rate();
    TRIBUTARY_FOR_EACH_OPTIMIZER(TRIBUTARY_LEARNING_RATE)
#undef TRIBUTARY_LEARNING_RATE
    case OptimizerSpec::kProgram:
    case OptimizerSpec::RULE_NOT_SET:
      break;
  }
  return 0;
}

}  // namespace tributary
