// Where the launcher and the server get their job from: a file or the built-in
// job, then what the command line changes in it.
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

// examples/licenses.textproto, with those of its text files that this machine
// has. FailedPrecondition, saying what to do, if it has none of them.
// `is_readable` tells whether a path is a file that can be read.
absl::StatusOr<JobSpec> BuiltInJob(
    const std::function<bool(const std::string&)>& is_readable);

struct JobSource {
  // Empty: the built-in job.
  std::string path;
  // path=value, in order; see SetField in common/job/job.h.
  std::vector<std::string> sets;
  // Steps, here or in `sets`, replace epochs, and fewer than a schedule has
  // shorten the schedule. These win over `sets`. 0: not given.
  int64_t steps = 0;
  // Wins over `sets`.
  absl::optional<int64_t> log_every_steps;
  std::string output_directory;
  // Whoever asks finds batch.micro_batches, where that is kFindMicroBatches.
  bool finds_micro_batches = false;
};

// --steps.
void AddStepsFlag(CommandLine* line, JobSource* source);

// The job, valid and, but for that, resolved.
absl::StatusOr<JobSpec> ReadJob(const JobSource& source);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_JOB_SOURCE_H_
