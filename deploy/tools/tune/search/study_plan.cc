#include "deploy/tools/tune/search/study_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

constexpr int64_t kMostMembers = 1000000;

// Returns steps / eta^(rungs - 1), ..., steps / eta, steps.
absl::StatusOr<std::vector<int64_t>> Rungs(const std::string& path,
                                           int64_t steps, int64_t eta,
                                           int64_t rungs, int64_t multiple) {
  std::vector<int64_t> all = {steps};
  int64_t length = steps;
  for (int64_t i = 1; i < rungs; ++i) {
    length /= eta;
    const int64_t rung = length / multiple * multiple;
    if (rung < 1 || rung >= all.back()) {
      return Error(
          path + ".rungs", rungs, " rungs with eta ", eta,
          " need a job with more than ", steps, " steps",
          multiple > 1 ? absl::StrCat(", in rounds of ", multiple) : "",
          "; lower rungs or raise steps");
    }
    all.push_back(rung);
  }
  std::reverse(all.begin(), all.end());
  return all;
}

absl::Status PlanHyperband(const SearchSpec& search, int64_t steps,
                           int64_t multiple, StudyPlan* plan) {
  const auto& hyperband = search.scheduler().hyperband();
  plan->eta = hyperband.eta();
  const int64_t rungs = hyperband.rungs();
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<int64_t> all,
      Rungs("scheduler.hyperband", steps, plan->eta, rungs, multiple));
  // Bracket b of s + 1 has ceil((s + 1) / (s - b + 1) * eta^(s - b)) trials.
  int64_t power = 1;
  for (int64_t left = 1; left <= rungs; ++left) {
    Bracket bracket;
    bracket.rungs.assign(all.end() - left, all.end());
    bracket.trials = (rungs * power + left - 1) / left;
    plan->brackets.insert(plan->brackets.begin(), std::move(bracket));
    if (power > INT64_MAX / plan->eta / rungs) {
      return Error("scheduler.hyperband.rungs", rungs, " rungs with eta ",
                   plan->eta, " need too many trials");
    }
    power *= plan->eta;
  }
  return absl::OkStatus();
}

absl::Status PlanPopulation(const SearchSpec& search, int64_t steps,
                            int64_t multiple, StudyPlan* plan) {
  const auto& population = search.scheduler().population_based();
  plan->scheduler = StudyPlan::Scheduler::kPopulation;
  plan->population = population.population();
  // Tolerates the rounding of the product.
  plan->replaced = std::max<int64_t>(
      1, static_cast<int64_t>(population.quantile() *
                                  static_cast<double>(plan->population) +
                              1e-9));
  const int64_t every =
      (population.every_steps() + multiple - 1) / multiple * multiple;
  const int64_t generations = (steps + every - 1) / every;
  if (generations > kMostMembers / plan->population) {
    return Error("scheduler.population_based.every_steps",
                 population.every_steps(), " makes more than ", kMostMembers,
                 " trials");
  }
  for (int64_t g = 1; g <= generations; ++g) {
    plan->brackets.push_back({{std::min(g * every, steps)}, plan->population});
  }
  plan->most_trials = generations * plan->population;
  return absl::OkStatus();
}

absl::Status PlanScheduler(const SearchSpec& search, int64_t steps,
                           int64_t multiple, StudyPlan* plan) {
  const SchedulerSpec& scheduler = search.scheduler();
  switch (scheduler.kind_case()) {
    case SchedulerSpec::kSuccessiveHalving: {
      plan->scheduler = StudyPlan::Scheduler::kHalving;
      plan->eta = scheduler.successive_halving().eta();
      Bracket bracket;
      TRIBUTARY_ASSIGN_OR_RETURN(
          bracket.rungs,
          Rungs("scheduler.successive_halving", steps, plan->eta,
                scheduler.successive_halving().rungs(), multiple));
      plan->brackets.push_back(std::move(bracket));
      return absl::OkStatus();
    }
    case SchedulerSpec::kHyperband:
      plan->scheduler = StudyPlan::Scheduler::kHalving;
      return PlanHyperband(search, steps, multiple, plan);
    case SchedulerSpec::kMedianStopping: {
      plan->scheduler = StudyPlan::Scheduler::kMedian;
      plan->informed = true;
      plan->startup_trials = scheduler.median_stopping().startup_trials();
      const int64_t every =
          (scheduler.median_stopping().every_steps() + multiple - 1) /
          multiple * multiple;
      Bracket bracket;
      for (int64_t rung = every; rung < steps; rung += every) {
        bracket.rungs.push_back(rung);
      }
      bracket.rungs.push_back(steps);
      plan->brackets.push_back(std::move(bracket));
      return absl::OkStatus();
    }
    case SchedulerSpec::kPopulationBased:
      return PlanPopulation(search, steps, multiple, plan);
    case SchedulerSpec::KIND_NOT_SET:
      break;
  }
  plan->brackets.push_back({{steps}, 1});
  return absl::OkStatus();
}

void Limit(int64_t count, absl::optional<int64_t>* limit) {
  *limit = std::min(limit->value_or(count), count);
}

}  // namespace

bool StudyPlan::IsWhole(int bracket, int rung) const {
  const bool at_end =
      rung + 1 == static_cast<int>(brackets[bracket].rungs.size());
  return at_end && (scheduler != Scheduler::kPopulation ||
                    bracket + 1 == static_cast<int>(brackets.size()));
}

int64_t StudyPlan::StepsBefore(int bracket, int rung) const {
  if (rung > 0) return brackets[bracket].rungs[rung - 1];
  if (scheduler != Scheduler::kPopulation || bracket == 0) return 0;
  return brackets[bracket - 1].rungs.back();
}

int StudyPlan::BracketOf(int64_t trial) const {
  if (scheduler == Scheduler::kPopulation) {
    return static_cast<int>(std::min<int64_t>(
        trial / population, static_cast<int64_t>(brackets.size()) - 1));
  }
  int64_t cycle = 0;
  for (const Bracket& bracket : brackets) cycle += bracket.trials;
  int64_t place = trial % cycle;
  int number = 0;
  while (place >= brackets[number].trials) {
    place -= brackets[number].trials;
    ++number;
  }
  return number;
}

int64_t StudyPlan::StepsOf(int64_t trials) const {
  std::vector<int64_t> counts(brackets.size());
  int64_t cycle = 0;
  for (const Bracket& bracket : brackets) cycle += bracket.trials;
  for (size_t b = 0; b < brackets.size(); ++b) {
    counts[b] = trials / cycle * brackets[b].trials;
  }
  for (int64_t t = trials / cycle * cycle; t < trials; ++t) {
    ++counts[BracketOf(t)];
  }
  int64_t total = 0;
  for (size_t b = 0; b < brackets.size(); ++b) {
    int64_t count = counts[b];
    int64_t before = StepsBefore(static_cast<int>(b), 0);
    for (const int64_t rung : brackets[b].rungs) {
      total += count * (rung - before);
      before = rung;
      if (scheduler == Scheduler::kHalving && count > 0) {
        count = std::max<int64_t>(1, count / eta);
      }
    }
  }
  return total;
}

absl::StatusOr<StudyPlan> MakeStudyPlan(const SearchSpec& search, int64_t steps,
                                        int64_t multiple,
                                        absl::optional<int64_t> most_points) {
  StudyPlan plan;
  plan.lookahead = search.lookahead();
  plan.informed = search.sampler().has_optuna();
  for (const ObjectiveSpec& objective : search.objective()) {
    plan.maximize.push_back(objective.goal() == ObjectiveSpec::MAXIMIZE);
  }
  TRIBUTARY_RETURN_IF_ERROR(PlanScheduler(search, steps, multiple, &plan));
  plan.most_points = most_points;
  const BudgetSpec& budget = search.budget();
  if (budget.has_trials()) Limit(budget.trials(), &plan.most_trials);
  if (!budget.has_steps()) return plan;
  if (budget.steps() < plan.StepsOf(1)) {
    return Error("budget.steps", budget.steps(), " is below the ",
                 plan.StepsOf(1), " steps of one trial");
  }
  if (plan.scheduler == StudyPlan::Scheduler::kMedian) {
    plan.most_steps = budget.steps();
    return plan;
  }
  // Finds the largest number of trials by bisection.
  int64_t enough = 1, too_many = budget.steps() + 1;
  while (too_many - enough > 1) {
    const int64_t middle = enough + (too_many - enough) / 2;
    (plan.StepsOf(middle) <= budget.steps() ? enough : too_many) = middle;
  }
  Limit(enough, &plan.most_trials);
  return plan;
}

}  // namespace tributary
