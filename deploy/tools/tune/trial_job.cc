#include "deploy/tools/tune/trial_job.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
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
