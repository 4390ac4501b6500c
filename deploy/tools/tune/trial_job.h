// The jobs of trials.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_TRIAL_JOB_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_TRIAL_JOB_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/tools/tune/search/search_space.h"
#include "deploy/tools/tune/search/study_plan.h"
#include "deploy/tools/tune/search/trial_result.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/job.pb.h"
#include "proto/search.pb.h"

namespace tributary {

// Returns the job of a trial with these values, resolved, as a whole.
// `job_text` is the contents of the job file; empty for the built-in job.
// Returns InvalidArgument, naming the field, if the values are not valid.
absl::StatusOr<JobSpec> TrialJob(const std::string& job_text,
                                 const SearchSpec& search,
                                 const SearchSpace& space,
                                 const SearchPoint& point);

// Returns the job without values of parameters, resolved. Returns
// InvalidArgument if it cannot be searched: if its length is not a number of
// steps, or if it ends early while the search has a scheduler; and, if the
// search trains a population, if a parameter is not a field that may change
// when a job resumes.
absl::StatusOr<JobSpec> JobToSearch(const std::string& job_text,
                                    const SearchSpec& search);

// Returns the job that trains the first `steps` steps of the trial `job`. Run
// in the same folder with more and more steps, it computes the bits of `job`.
// Returns InvalidArgument if no job can: if the warm-up takes more steps, or if
// they are not whole rounds of local SGD.
absl::StatusOr<JobSpec> SegmentJob(JobSpec job, int64_t steps);

// Returns the objectives and the violations of constraints of a run with this
// summary.json. Returns FailedPrecondition, naming the metric, if one is
// missing or not finite.
absl::StatusOr<TrialResult> ResultOfRun(const SearchSpec& search,
                                        const nlohmann::ordered_json& summary);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_TRIAL_JOB_H_
