#include "deploy/tools/tune/study_runs.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "deploy/tools/tune/trial_job.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> NumbersIn(const Json& object, const char* name) {
  std::vector<double> numbers;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return numbers;
  for (const Json& number : *found) {
    if (number.is_number()) numbers.push_back(number.get<double>());
  }
  return numbers;
}

// Returns what the journal says about a run of the final evaluation.
Json RecordOfFinal(const TuneStudy& study, int64_t trial, int64_t seed) {
  return study.journal()->replay().user_attributes().value(
      FinalRunName(trial, seed), Json::object());
}

}  // namespace

absl::optional<absl::Time> BeginOfStudy(const TuneStudy& study) {
  for (const JournalTrial& trial : study.records()) {
    absl::Time time;
    std::string error;
    if (absl::ParseTime(absl::RFC3339_full, trial.began, &time, &error)) {
      return time;
    }
  }
  return absl::nullopt;
}

absl::StatusOr<JobSpec> JobOfSegment(const TuneStudy& study,
                                     const Segment& segment) {
  TRIBUTARY_ASSIGN_OR_RETURN(JobSpec job, study.JobOfTrial(segment.trial));
  if (!segment.is_final()) return SegmentJob(std::move(job), segment.steps);
  job.set_seed(job.seed() + static_cast<uint64_t>(segment.final_seed));
  return job;
}

std::string OwnerOf(const TuneStudy& study, const Segment& segment) {
  if (segment.is_final()) {
    return StringMember(RecordOfFinal(study, segment.trial, segment.final_seed),
                        kTuner);
  }
  const Json claim = study.records()[segment.trial].system_attributes.value(
      kClaim, Json::object());
  const bool of_rung =
      claim.is_object() && claim.value("rung", Json()) == segment.rung;
  return of_rung ? StringMember(claim, kTuner) : "";
}

std::string WeightsOfFinalRun(const TuneStudy& study, int64_t trial,
                              int64_t seed) {
  if (seed == 0 && !study.study().trials()[trial].foreign) {
    return StringMember(study.records()[trial].user_attributes, kWeightsDigest);
  }
  return StringMember(RecordOfFinal(study, trial, seed), kWeightsDigest);
}

std::string FailureOfFinalRun(const TuneStudy& study, int64_t trial,
                              int64_t seed) {
  return StringMember(RecordOfFinal(study, trial, seed), kFailure);
}

absl::Status ApplyFinalAttribute(const std::string& name, const Json& value,
                                 const Study& study, FinalStage* final_stage) {
  const absl::Status damaged = absl::DataLossError(
      absl::StrCat("the attribute ", name, " does not belong to the search"));
  if (!value.is_object()) return damaged;
  if (name == kFinalTrials) {
    std::vector<int64_t> trials;
    std::vector<absl::optional<TrialResult>> results;
    for (const double number : NumbersIn(value, "trials")) {
      const int64_t trial = static_cast<int64_t>(number);
      if (trial < 0 || trial >= study.size() ||
          study.trials()[trial].results.empty()) {
        return damaged;
      }
      trials.push_back(trial);
      results.emplace_back();
      const StudyTrial& known = study.trials()[trial];
      if (!known.foreign) results.back() = known.results.back();
    }
    final_stage->Begin(trials, results);
    return absl::OkStatus();
  }
  const std::vector<std::string> parts = absl::StrSplit(name, ':');
  int64_t trial, seed;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[2], &trial) ||
      !absl::SimpleAtoi(parts[3], &seed)) {
    return damaged;
  }
  TrialResult result;
  result.values = NumbersIn(value, "values");
  result.violations = NumbersIn(value, "violations");
  if (value.contains(kFailure)) {
    final_stage->Report(trial, seed, absl::nullopt);
  } else if (!result.values.empty()) {
    final_stage->Report(trial, seed, std::move(result));
  }
  return absl::OkStatus();
}

}  // namespace tributary
