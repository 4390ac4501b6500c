// Whether a job may go on with a run.
#ifndef TRIBUTARY_SERVER_PROCESS_RESUME_CHECK_H_
#define TRIBUTARY_SERVER_PROCESS_RESUME_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// A job that asks to go on.
struct ResumeRequest {
  JobSpec job;  // Resolved and valid.
  // As in ServerOptions.
  std::string output_directory;
  std::string resume_from;
  bool allow_job_changes = false;
};

// Looks at the manifests of the run, and changes nothing, so it comes before
// anything that does. InvalidArgument if the newest checkpoint is of a job with
// another result, and that is not allowed, or of one that this job cannot go on
// with in any case, as far as that shows without the model. NotFound if there
// is no checkpoint in `resume_from`. Damaged checkpoints are left to
// ResumeChooser.
absl::Status CheckResumeRequest(const ResumeRequest& request);

// NotFound for ServerOptions::resume_from.
absl::Status NoCheckpointIn(const std::string& resume_from);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_RESUME_CHECK_H_
