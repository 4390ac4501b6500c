#include "deploy/tools/tune/trial_job.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/job/rounds.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"
#include "common/text/counted.h"
#include "deploy/flags/job_source.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

absl::StatusOr<JobSpec> ReadWith(const std::string& job_text,
                                 const SearchSpec& search,
                                 std::vector<std::string> sets) {
  JobSource source;
  source.text = job_text;
  source.sets.assign(search.set().begin(), search.set().end());
  source.sets.insert(source.sets.end(), sets.begin(), sets.end());
  TRIBUTARY_ASSIGN_OR_RETURN(JobSpec job, ReadJob(source));
  job.mutable_output()->clear_directory();
  return job;
}

// Returns the paths of all numbers in `json`.
void ListNumbers(const nlohmann::ordered_json& json, const std::string& prefix,
                 std::vector<std::string>* paths) {
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) paths->push_back(prefix + name);
    if (value.is_object()) ListNumbers(value, prefix + name + ".", paths);
  }
}

// Returns the number at a path such as "evaluation.loss".
absl::StatusOr<double> MetricOf(const nlohmann::ordered_json& summary,
                                const std::string& metric) {
  const nlohmann::ordered_json* at = &summary;
  for (const absl::string_view name : absl::StrSplit(metric, '.')) {
    const auto found =
        at->is_object() ? at->find(std::string(name)) : at->end();
    if (found == at->end()) {
      std::vector<std::string> paths;
      ListNumbers(summary, "", &paths);
      return absl::FailedPreconditionError(
          absl::StrCat("the run has no metric ", metric, "; it has ",
                       absl::StrJoin(paths, ", ")));
    }
    at = &*found;
  }
  if (!at->is_number() || !std::isfinite(at->get<double>())) {
    return absl::FailedPreconditionError(absl::StrCat(
        metric, " is ", at->is_number() ? "not finite" : at->dump()));
  }
  return at->get<double>();
}

// Returns true if a job with another value of this field may resume, as far as
// the field decides this: the checkpoint has the weights of the same model, and
// the exchange groups steps in the same way. The state of the optimizer depends
// on the values.
bool MayChange(absl::string_view path) {
  for (const absl::string_view message :
       {"optimizer", "schedule", "batch.global", "clip_norm"}) {
    if (path == message || absl::StartsWith(path, absl::StrCat(message, "."))) {
      return true;
    }
  }
  for (const absl::string_view field :
       {".dropout", ".label_smoothing", ".mask_probability"}) {
    if (absl::StartsWith(path, "model.") && absl::EndsWith(path, field)) {
      return true;
    }
  }
  return absl::StartsWith(path, "data.images.augmentation.");
}

// Returns the first and the last value of parameter `i`, or all of its choices.
std::vector<double> EndsOf(const SearchSpace& space, int i) {
  const SearchParameterSpec& parameter = space.parameter(i);
  if (parameter.has_number()) {
    return {parameter.number().low(), parameter.number().high()};
  }
  if (parameter.has_integer()) {
    return {space.ValueAt(i, 0), space.Nearest(i, HUGE_VAL)};
  }
  std::vector<double> choices(parameter.choice().value_size());
  std::iota(choices.begin(), choices.end(), 0.0);
  return choices;
}

// Returns a point in which parameter `i` has this value.
SearchPoint PointWith(const SearchSpace& space, int i, double value) {
  SearchPoint fixed(space.size());
  fixed[i] = value;
  // The choices on which it depends.
  while (space.parameter(i).has_when()) {
    const SearchCondition& when = space.parameter(i).when();
    i = space.Find(when.path());
    const auto& choices = space.parameter(i).choice().value();
    fixed[i] = static_cast<double>(
        std::find(choices.begin(), choices.end(), when.value(0)) -
        choices.begin());
  }
  SearchPoint point(space.size());
  for (int k = 0; k < space.size(); ++k) {
    if (!space.IsActive(k, point)) continue;
    point[k] = fixed[k].value_or(space.ValueAt(k, 0.5));
  }
  return point;
}

// Checks that a trial may continue from the checkpoint of any other.
absl::Status CheckMayChange(const std::string& job_text,
                            const SearchSpec& search) {
  const SearchSpace space(search);
  std::string first, state_of_first;
  for (int i = 0; i < space.size(); ++i) {
    const std::string& path = space.parameter(i).path();
    if (!MayChange(path)) {
      return Error(
          absl::StrCat("parameter[", i, "].path"), path,
          " cannot change while a job is trained, so population_based cannot "
          "search it; it can search fields of optimizer and schedule, "
          "batch.global, clip_norm, dropout, label_smoothing, "
          "mask_probability and augmentation");
    }
    for (const double value : EndsOf(space, i)) {
      const absl::StatusOr<JobSpec> job =
          TrialJob(job_text, search, space, PointWith(space, i, value));
      // A trial with these values fails, with its reason.
      if (!job.ok()) continue;
      const auto optimizer = Optimizer::Create(JobOfRounds(*job).optimizer());
      if (!optimizer.ok()) continue;
      const std::string state = absl::StrJoin((*optimizer)->slot_names(), ", ");
      const std::string set =
          absl::StrCat(path, "=", space.ValueText(i, value));
      if (first.empty()) {
        first = set;
        state_of_first = state;
      }
      if (state == state_of_first) continue;
      return Error(absl::StrCat("parameter[", i, "]"), "with ", set,
                   ", the optimizer keeps the state {", state, "}, but with ",
                   first, " {", state_of_first,
                   "}; population_based needs the same state for all values");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobSpec> TrialJob(const std::string& job_text,
                                 const SearchSpec& search,
                                 const SearchSpace& space,
                                 const SearchPoint& point) {
  return ReadWith(job_text, search, space.Sets(point));
}

absl::StatusOr<JobSpec> JobToSearch(const std::string& job_text,
                                    const SearchSpec& search) {
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job, ReadWith(job_text, search, {}));
  if (!job.has_steps()) {
    return Error("epochs",
                 "trials have a number of steps; set steps in the job, or in "
                 "the search, as in set: \"steps=1000\"");
  }
  if (job.has_stop_when() &&
      search.scheduler().kind_case() != SchedulerSpec::KIND_NOT_SET) {
    return Error("stop_when",
                 "the scheduler of the search decides when trials end; remove "
                 "one of the two");
  }
  if (search.scheduler().has_population_based()) {
    TRIBUTARY_RETURN_IF_ERROR(CheckMayChange(job_text, search));
  }
  return job;
}

absl::StatusOr<JobSpec> SegmentJob(JobSpec job, int64_t steps) {
  // The learning rate of a step is that of the whole trial. Set also for the
  // last segment, because all of them must have the same schedule.
  ScheduleSpec* const schedule = job.mutable_schedule();
  if (HasEnd(schedule->decay()) && schedule->decay_steps() == 0) {
    schedule->set_decay_steps(job.steps());
  }
  if (steps == job.steps()) return job;
  if (schedule->warmup_steps() > steps) {
    return Error("schedule.warmup_steps", schedule->warmup_steps(),
                 " is more than the ", Counted(steps, "step"),
                 " of the first rung; lower it, or the number of rungs");
  }
  const int64_t round = ResolveExchange(job).steps_per_round;
  if (steps % round != 0) {
    return Error("exchange", "rounds of ", Counted(round, "step"),
                 " do not divide the ", Counted(steps, "step"), " of a rung");
  }
  // The last checkpoint is written at the end.
  if (!TakesCheckpoints(job)) job.mutable_checkpoint()->set_every_steps(steps);
  job.set_steps(steps);
  return job;
}

absl::StatusOr<TrialResult> ResultOfRun(const SearchSpec& search,
                                        const nlohmann::ordered_json& summary) {
  TrialResult result;
  for (const ObjectiveSpec& objective : search.objective()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const double value,
                               MetricOf(summary, objective.metric()));
    result.values.push_back(value);
  }
  for (const ConstraintSpec& constraint : search.constraint()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const double value,
                               MetricOf(summary, constraint.metric()));
    double violation = -std::numeric_limits<double>::infinity();
    if (constraint.has_min()) {
      violation = std::max(violation, constraint.min() - value);
    }
    if (constraint.has_max()) {
      violation = std::max(violation, value - constraint.max());
    }
    result.violations.push_back(violation);
  }
  return result;
}

}  // namespace tributary
