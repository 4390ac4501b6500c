#include "deploy/tools/tune/search/search_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "deploy/tools/tune/search/sobol_sequence.h"

namespace tributary {
namespace {

constexpr int64_t kMaxSearchBytes = 1 << 20;
constexpr int kMaxDepth = 20;
constexpr int64_t kMostTrials = 1000000;
constexpr int64_t kMostSteps = int64_t{1} << 50;
// Doubles represent all integers up to this one.
constexpr int64_t kMostInteger = int64_t{1} << 53;

// Keeps the first error of the parser, because later ones usually follow from
// it.
class FirstSearchError : public ::google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!message_.empty()) return;
    message_ =
        line < 0 ? absl::StrCat(": ", message)
                 : absl::StrCat(":", line + 1, ":", column + 1, ": ", message);
  }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

absl::Status ValidateNumber(const std::string& path, const NumberRange& range,
                            bool in_grid) {
  if (!range.has_low()) return Required(path + ".low");
  if (!range.has_high()) return Required(path + ".high");
  if (!std::isfinite(range.low()) || !std::isfinite(range.high()) ||
      !std::isfinite(range.high() - range.low())) {
    return Error(path, "low and high must be finite numbers");
  }
  if (range.low() > range.high()) {
    return Error(path, "low ", range.low(), " is above high ", range.high());
  }
  if (range.log() && !(range.low() > 0)) {
    return Error(path, "low ", range.low(), " is not above 0, as log needs");
  }
  if (!(range.step() >= 0) || !std::isfinite(range.step())) {
    return Error(path + ".step", range.step(),
                 " is not 0 or a positive number");
  }
  if (range.step() > 0 && range.log()) {
    return Error(path, "set either log or step");
  }
  if (range.step() > 0 &&
      (range.high() - range.low()) / range.step() > kMostTrials) {
    return Error(path + ".step", range.step(),
                 " divides the range into more than ", kMostTrials, " values");
  }
  return in_grid ? Between(path + ".grid_points", range.grid_points(), 2,
                           kMostTrials)
                 : absl::OkStatus();
}

absl::Status ValidateInteger(const std::string& path,
                             const IntegerRange& range) {
  if (!range.has_low()) return Required(path + ".low");
  if (!range.has_high()) return Required(path + ".high");
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".low", range.low(), -kMostInteger, kMostInteger));
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".high", range.high(), -kMostInteger, kMostInteger));
  if (range.low() > range.high()) {
    return Error(path, "low ", range.low(), " is above high ", range.high());
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".step", range.step(), 1, kMostInteger));
  if (range.log() && range.low() < 1) {
    return Error(path, "low ", range.low(), " is not at least 1, as log needs");
  }
  if (range.log() && range.step() != 1) {
    return Error(path, "set either log or step");
  }
  return absl::OkStatus();
}

// Checks that the texts differ.
absl::Status ValidateTexts(
    const std::string& path,
    const google::protobuf::RepeatedPtrField<std::string>& texts) {
  if (texts.empty()) return Required(path);
  std::set<std::string> seen;
  for (const std::string& text : texts) {
    if (!seen.insert(text).second) {
      return Error(path, "\"", text, "\" is listed twice");
    }
  }
  return absl::OkStatus();
}

// Checks parameter `number`, which may only depend on the ones before it.
absl::Status ValidateCondition(const std::string& path,
                               const SearchSpec& search, int number) {
  const SearchCondition& when = search.parameter(number).when();
  if (when.path().empty()) return Required(path + ".path");
  TRIBUTARY_RETURN_IF_ERROR(ValidateTexts(path + ".value", when.value()));
  for (int i = 0; i < number; ++i) {
    const SearchParameterSpec& earlier = search.parameter(i);
    if (earlier.path() != when.path()) continue;
    if (!earlier.has_choice()) {
      return Error(path + ".path", when.path(), " is not a choice");
    }
    const auto& values = earlier.choice().value();
    for (const std::string& value : when.value()) {
      if (std::find(values.begin(), values.end(), value) == values.end()) {
        return Error(path + ".value", "\"", value, "\" is not a value of ",
                     when.path());
      }
    }
    return absl::OkStatus();
  }
  return Error(path + ".path", when.path(),
               " is not the path of an earlier parameter");
}

absl::Status ValidateParameter(const SearchSpec& search, int number) {
  const SearchParameterSpec& parameter = search.parameter(number);
  const std::string path = absl::StrCat("parameter[", number, "]");
  if (parameter.path().empty()) return Required(path + ".path");
  if (parameter.path() == "steps" || parameter.path() == "epochs") {
    return Error(path + ".path", parameter.path(),
                 " decides how long trials are trained, so it cannot be "
                 "searched; see scheduler");
  }
  if (absl::StrContains(parameter.path(), '=')) {
    return Error(path + ".path", "write the path of a field, without a value");
  }
  const std::string named = absl::StrCat(path, " (", parameter.path(), ")");
  switch (parameter.values_case()) {
    case SearchParameterSpec::kNumber:
      TRIBUTARY_RETURN_IF_ERROR(ValidateNumber(
          named + ".number", parameter.number(), search.sampler().has_grid()));
      break;
    case SearchParameterSpec::kInteger:
      TRIBUTARY_RETURN_IF_ERROR(
          ValidateInteger(named + ".integer", parameter.integer()));
      break;
    case SearchParameterSpec::kChoice:
      TRIBUTARY_RETURN_IF_ERROR(
          ValidateTexts(named + ".choice.value", parameter.choice().value()));
      break;
    case SearchParameterSpec::VALUES_NOT_SET:
      return Error(named, "set number, integer or choice");
  }
  if (!parameter.has_when()) return absl::OkStatus();
  return ValidateCondition(named + ".when", search, number);
}

absl::Status ValidateParameters(const SearchSpec& search) {
  if (search.parameter().empty()) return Required("parameter");
  std::set<std::string> paths;
  for (int i = 0; i < search.parameter_size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(ValidateParameter(search, i));
    if (!paths.insert(search.parameter(i).path()).second) {
      return Error(absl::StrCat("parameter[", i, "].path"),
                   search.parameter(i).path(),
                   " is the path of an earlier parameter, too");
    }
  }
  if (search.sampler().has_sobol() &&
      search.parameter_size() > SobolSequence::kMostDimensions) {
    return Error("sampler.sobol", "works for at most ",
                 SobolSequence::kMostDimensions, " parameters, not ",
                 search.parameter_size(), "; use random");
  }
  return absl::OkStatus();
}

absl::Status ValidateObjectives(const SearchSpec& search) {
  if (search.objective().empty()) return Required("objective");
  for (int i = 0; i < search.objective_size(); ++i) {
    const ObjectiveSpec& objective = search.objective(i);
    const std::string path = absl::StrCat("objective[", i, "]");
    if (objective.metric().empty()) return Required(path + ".metric");
    if (objective.goal() == ObjectiveSpec::GOAL_UNSPECIFIED) {
      return Error(path + ".goal", "is required: MINIMIZE or MAXIMIZE");
    }
  }
  std::set<std::string> constrained;
  for (int i = 0; i < search.constraint_size(); ++i) {
    const ConstraintSpec& constraint = search.constraint(i);
    const std::string path = absl::StrCat("constraint[", i, "]");
    if (constraint.metric().empty()) return Required(path + ".metric");
    if (!constrained.insert(constraint.metric()).second) {
      return Error(path + ".metric", constraint.metric(),
                   " has an earlier constraint; set its min and max");
    }
    if (!constraint.has_min() && !constraint.has_max()) {
      return Error(path, "set min, max or both");
    }
    if (constraint.has_min() && constraint.has_max() &&
        !(constraint.min() <= constraint.max())) {
      return Error(path, "min ", constraint.min(), " is above max ",
                   constraint.max());
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateHalving(const std::string& path, int64_t eta,
                             int64_t rungs) {
  TRIBUTARY_RETURN_IF_ERROR(Between(path + ".eta", eta, 2, 100));
  return Between(path + ".rungs", rungs, 2, 20);
}

absl::Status ValidatePopulation(const SearchSpec& search) {
  const auto& population = search.scheduler().population_based();
  const std::string path = "scheduler.population_based";
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".population", population.population(), 2, 10000));
  if (!population.has_every_steps()) return Required(path + ".every_steps");
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".every_steps", population.every_steps(), 1, kMostSteps));
  if (!(population.quantile() > 0 && population.quantile() <= 0.5)) {
    return Error(path + ".quantile", population.quantile(),
                 " is not above 0 and at most 0.5");
  }
  for (const double factor : population.factor()) {
    if (!(factor > 0 && std::isfinite(factor) && factor != 1)) {
      return Error(path + ".factor", factor,
                   " is not a positive number other than 1");
    }
  }
  if (!(population.resample_probability() >= 0 &&
        population.resample_probability() <= 1)) {
    return Error(path + ".resample_probability",
                 population.resample_probability(), " is not in [0, 1]");
  }
  if (search.sampler().has_grid() || search.sampler().has_optuna()) {
    return Error("sampler",
                 "population_based chooses values itself, except those of the "
                 "first generation; use random or sobol");
  }
  if (search.has_budget()) {
    return Error("budget",
                 "population_based trains its members for the steps of the "
                 "job; remove budget");
  }
  return absl::OkStatus();
}

absl::Status ValidateScheduler(const SearchSpec& search) {
  const SchedulerSpec& scheduler = search.scheduler();
  switch (scheduler.kind_case()) {
    case SchedulerSpec::KIND_NOT_SET:
      return absl::OkStatus();
    case SchedulerSpec::kSuccessiveHalving:
      TRIBUTARY_RETURN_IF_ERROR(ValidateHalving(
          "scheduler.successive_halving", scheduler.successive_halving().eta(),
          scheduler.successive_halving().rungs()));
      break;
    case SchedulerSpec::kHyperband:
      TRIBUTARY_RETURN_IF_ERROR(ValidateHalving("scheduler.hyperband",
                                                scheduler.hyperband().eta(),
                                                scheduler.hyperband().rungs()));
      break;
    case SchedulerSpec::kMedianStopping: {
      const auto& stopping = scheduler.median_stopping();
      const std::string path = "scheduler.median_stopping";
      if (!stopping.has_every_steps()) return Required(path + ".every_steps");
      TRIBUTARY_RETURN_IF_ERROR(Between(path + ".every_steps",
                                        stopping.every_steps(), 1, kMostSteps));
      TRIBUTARY_RETURN_IF_ERROR(Between(
          path + ".startup_trials", stopping.startup_trials(), 1, kMostTrials));
      break;
    }
    case SchedulerSpec::kPopulationBased:
      TRIBUTARY_RETURN_IF_ERROR(ValidatePopulation(search));
      break;
  }
  if (search.objective_size() > 1) {
    return Error("scheduler",
                 "compares trials by one objective, but there are ",
                 search.objective_size(), "; leave out scheduler");
  }
  return absl::OkStatus();
}

absl::Status ValidateFinal(const SearchSpec& search) {
  if (!search.has_final()) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(
      Between("final.best", search.final().best(), 1, 100));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("final.seeds", search.final().seeds(), 2, 100));
  if (search.objective_size() > 1) {
    return Error("final", "compares trials by one objective, but there are ",
                 search.objective_size(), "; leave out final");
  }
  if (search.scheduler().has_population_based()) {
    return Error("final",
                 "trains jobs with other seeds, but no job has the values of a "
                 "population, which change; leave out final");
  }
  for (const SearchParameterSpec& parameter : search.parameter()) {
    if (parameter.path() != "seed") continue;
    return Error("final",
                 "changes seed, which is also a parameter of the search; leave "
                 "out one of them");
  }
  return absl::OkStatus();
}

absl::Status ValidateBudget(const SearchSpec& search) {
  const BudgetSpec& budget = search.budget();
  if (!budget.has_trials() && !budget.has_steps() && !budget.has_seconds() &&
      !search.sampler().has_grid() &&
      !search.scheduler().has_population_based()) {
    return Error("budget",
                 "set trials, steps or seconds, as in: budget { "
                 "trials: 27 }");
  }
  if (budget.has_trials()) {
    TRIBUTARY_RETURN_IF_ERROR(
        Between("budget.trials", budget.trials(), 1, kMostTrials));
  }
  if (budget.has_steps()) {
    TRIBUTARY_RETURN_IF_ERROR(
        Between("budget.steps", budget.steps(), 1, kMostSteps));
  }
  if (budget.has_seconds() &&
      !(budget.seconds() > 0 && std::isfinite(budget.seconds()))) {
    return Error("budget.seconds", budget.seconds(), " is not above 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SearchSpec> ParseSearch(absl::string_view text,
                                       absl::string_view file_name) {
  FirstSearchError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxDepth);
  SearchSpec search;
  if (!parser.ParseFromString(std::string(text), &search)) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_name, error.message().empty() ? ": not understood"
                                                        : error.message()));
  }
  return search;
}

absl::StatusOr<SearchSpec> LoadSearch(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxSearchBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(text.status().message());
  }
  TRIBUTARY_ASSIGN_OR_RETURN(SearchSpec search, ParseSearch(*text, path));
  const absl::Status valid = ValidateSearch(search);
  if (!valid.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", valid.message()));
  }
  return search;
}

absl::Status ValidateSearch(const SearchSpec& search) {
  TRIBUTARY_RETURN_IF_ERROR(ValidateParameters(search));
  TRIBUTARY_RETURN_IF_ERROR(ValidateObjectives(search));
  TRIBUTARY_RETURN_IF_ERROR(ValidateScheduler(search));
  TRIBUTARY_RETURN_IF_ERROR(ValidateBudget(search));
  TRIBUTARY_RETURN_IF_ERROR(ValidateFinal(search));
  TRIBUTARY_RETURN_IF_ERROR(Between("lookahead", search.lookahead(), 1, 1000));
  return Between("parallel", search.parallel(), 1, 1000);
}

std::string PrintSearch(const SearchSpec& search) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(search, &text);
  return text;
}

}  // namespace tributary
