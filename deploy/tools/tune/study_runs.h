// The runs of a study: what they train, who trains them, and what the journal
// says about them.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_STUDY_RUNS_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_STUDY_RUNS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "deploy/tools/tune/search/final_stage.h"
#include "deploy/tools/tune/search/study.h"
#include "deploy/tools/tune/tune_study.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/job.pb.h"

namespace tributary {

// Returns when the first trial of the search began; nullopt if none has. Trials
// of other programs, such as imported ones, do not count.
absl::optional<absl::Time> BeginOfStudy(const TuneStudy& study);

// Returns the job that trains a segment. Returns the errors of
// TuneStudy::JobOfTrial and SegmentJob.
absl::StatusOr<JobSpec> JobOfSegment(const TuneStudy& study,
                                     const Segment& segment);

// Returns the id of the tuner that has claimed the segment in a shared study;
// empty if none has, or if it has released the segment.
std::string OwnerOf(const TuneStudy& study, const Segment& segment);

// Return the digest of the weights of a run of the final evaluation, and the
// reason why it has failed; empty if there is none.
std::string WeightsOfFinalRun(const TuneStudy& study, int64_t trial,
                              int64_t seed);
std::string FailureOfFinalRun(const TuneStudy& study, int64_t trial,
                              int64_t seed);

// Applies an attribute of the study, whose name begins with kFinalTrials, to
// the final evaluation. Returns DataLoss if it does not belong to the study.
absl::Status ApplyFinalAttribute(const std::string& name,
                                 const nlohmann::ordered_json& value,
                                 const Study& study, FinalStage* final_stage);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_STUDY_RUNS_H_
