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

// Returns the job of examples/licenses.textproto, which trains on license
// texts. Of the job's text files, keeps those that exist on this machine,
// either at their own paths or in the folder `copies`. Returns
// FailedPrecondition, with the remedy, if none exists. `is_readable` returns
// true if a path is a readable file.
absl::StatusOr<JobSpec> BuiltInJob(
    const std::string& copies,
    const std::function<bool(const std::string&)>& is_readable);

struct JobSource {
  // Path of the job file; empty for the job that BuiltInJob returns.
  std::string path;
  // The contents of a job file. Takes precedence over `path`.
  std::string text;
  // Changes of the job in the form path=value, applied in order; see SetField
  // in common/job/job.h.
  std::vector<std::string> sets;
  // Number of steps to train; 0 if it is not set. Takes precedence over `sets`.
  // A number of steps, here or in `sets`, replaces `epochs` of the job, and
  // shortens a learning rate schedule that is longer; schedule.decay_steps in
  // `sets` stays.
  int64_t steps = 0;
  // Replaces output.log_every_steps of the job. Takes precedence over `sets`.
  absl::optional<int64_t> log_every_steps;
  // Replaces output.trace of the job: BEGIN:END, the first step to trace and
  // the step after the last one. Empty if it is not set. Takes precedence over
  // `sets`.
  std::string trace_steps;
  // Replaces output.directory of the job unless empty.
  std::string output_directory;
  // True if batch.micro_batches may remain kFindMicroBatches, for a caller that
  // chooses the number itself.
  bool finds_micro_batches = false;
};

// Declares --steps, the number of steps to train, which sets `source->steps`.
void AddStepsFlag(CommandLine* line, JobSource* source);
// Declares --set, which changes a field of the job. Its values, in the form
// path=value, are appended to `*sets`. --help shows the value `example`.
void AddSetFlag(CommandLine* line, const std::string& example,
                std::vector<std::string>* sets);

// Reads the job that `source` names, applies the changes that `source`
// contains, and completes it with ResolveJob. The result is valid, except that
// batch.micro_batches may be kFindMicroBatches if source.finds_micro_batches is
// true. Returns the errors of LoadJob and BuiltInJob, and InvalidArgument,
// naming the flag or the field, for an invalid change or job. If it shortens
// the decay of the learning rate, says so to the user in `*remarks`, unless
// that is null.
absl::StatusOr<JobSpec> ReadJob(const JobSource& source,
                                std::vector<std::string>* remarks = nullptr);

// Reads the job of the run in the folder `run` and applies the changes `sets`,
// like ReadJob. Returns NotFound, with a hint, if the folder is not that of a
// run.
absl::StatusOr<JobSpec> ReadJobOfRun(const std::string& run,
                                     const std::vector<std::string>& sets);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_JOB_SOURCE_H_
