// Checks whether a job may resume from a run.
#ifndef TRIBUTARY_SERVER_PROCESS_RESUME_CHECK_H_
#define TRIBUTARY_SERVER_PROCESS_RESUME_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace tributary {

// A job, and the run from whose checkpoint the job is to resume.
struct ResumeRequest {
  JobSpec job;  // Must be a valid result of ResolveJob.
  // See the fields of ServerOptions with the same names.
  std::string output_directory;
  std::string resume_from;
  bool allow_job_changes = false;
};

// Checks whether the job may resume, by reading the manifests of the run.
// Changes no file. Call it before any file of the run is changed. Returns
// InvalidArgument if the newest checkpoint is of a job with a different result
// (see ResultChanges) and `allow_job_changes` is false, or if the job cannot
// resume from that checkpoint. Does not compare the models, which are not known
// yet. Returns NotFound if `resume_from` is set, and neither it nor the output
// folder has a checkpoint. ResumeChooser handles damaged checkpoints.
absl::Status CheckResumeRequest(const ResumeRequest& request);

// Returns true if the job of the checkpoint with this manifest has the same
// length (steps or epochs) as `job`, stops early in the same cases, and does
// not differ from it in fields that change the result (see ResultChanges).
bool IsOfJob(const CheckpointManifest& manifest, const JobSpec& job);

// Returns the NotFound error for a folder `resume_from` (see ServerOptions)
// that has no checkpoint.
absl::Status NoCheckpointIn(const std::string& resume_from);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_RESUME_CHECK_H_
