// Reads the job for the launcher or a server. The job is a file or the built-in
// job, with the changes that the command line specifies.
#ifndef TRIBUTARY_DEPLOY_FLAGS_JOB_SOURCE_H_
#define TRIBUTARY_DEPLOY_FLAGS_JOB_SOURCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/flags/command_line.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns the job of examples/licenses.textproto, limited to those of its text
// files that exist on this machine. Returns FailedPrecondition, with the
// remedy, if none exists. `is_readable` returns true if a path is a readable
// file.
absl::StatusOr<JobSpec> BuiltInJob(
    const std::function<bool(const std::string&)>& is_readable);

struct JobSource {
  // Path of the job file. Empty: the built-in job.
  std::string path;
  // Changes in the form path=value, in order; see SetField in common/job/job.h.
  std::vector<std::string> sets;
  // Number of steps; 0: not set. Takes precedence over `sets`. A number of
  // steps, here or in `sets`, replaces `epochs` of the job, and shortens a
  // learning rate schedule that is longer.
  int64_t steps = 0;
  // Takes precedence over `sets`.
  absl::optional<int64_t> log_every_steps;
  std::string output_directory;
  // True if the caller chooses batch.micro_batches when it is
  // kFindMicroBatches.
  bool finds_micro_batches = false;
};

// Declares --steps.
void AddStepsFlag(CommandLine* line, JobSource* source);
// Declares --set. --help shows `example`, a change in the form path=value.
void AddSetFlag(CommandLine* line, const std::string& example,
                std::vector<std::string>* sets);

// Returns the job, which is valid and resolved; but batch.micro_batches may be
// kFindMicroBatches if `finds_micro_batches` is set.
absl::StatusOr<JobSpec> ReadJob(const JobSource& source);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_JOB_SOURCE_H_
