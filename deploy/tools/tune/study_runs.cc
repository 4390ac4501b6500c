#include "deploy/tools/tune/study_runs.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "deploy/tools/tune/journal/final_records.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "deploy/tools/tune/trial_job.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

// Returns what the journal says about a run of the final evaluation.
Json RecordOfFinal(const TuneStudy& study, int64_t trial, int64_t seed) {
  return study.journal()->replay().user_attributes().value(
      FinalRunName(trial, seed), Json::object());
}

}  // namespace

absl::optional<absl::Time> BeginOfStudy(const TuneStudy& study) {
  for (int64_t t = 0; t < study.study().size(); ++t) {
    if (study.study().trials()[t].foreign) continue;
    absl::Time time;
    std::string error;
    if (absl::ParseTime(absl::RFC3339_full, study.records()[t].began, &time,
                        &error)) {
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
  if (name == kFinalTrials) {
    if (!value.is_object()) return damaged;
    const std::vector<int64_t> trials = ParseFinalTrials(value);
    std::vector<absl::optional<TrialResult>> results;
    for (const int64_t trial : trials) {
      if (trial < 0 || trial >= study.size() ||
          study.trials()[trial].results.empty()) {
        return damaged;
      }
      results.emplace_back();
      const StudyTrial& known = study.trials()[trial];
      if (!known.foreign) results.back() = known.results.back();
    }
    final_stage->Begin(trials, results);
    return absl::OkStatus();
  }
  absl::optional<FinalRecord> record = ParseFinalRecord(name, value);
  if (!record.has_value()) return damaged;
  if (record->ended) {
    final_stage->Report(record->trial, record->seed, std::move(record->result));
  }
  return absl::OkStatus();
}

}  // namespace tributary
