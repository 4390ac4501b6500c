#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_TRIAL_RUN_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_TRIAL_RUN_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/flags/output_directory.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/job/job_runner.h"
#include "deploy/tools/tune/search/study.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Runs one segment of a trial: a job in the trial's folder, which begins with
// the checkpoint of the segment before it. Not thread-safe; no method blocks,
// except the destructor, which ends the job's processes.
class TrialRun {
 public:
  // Starts the job. `launch.output` is the trial's folder, which is claimed as
  // long as this object exists. If the folder has no checkpoint, the job begins
  // with the checkpoint `launch.resume`, of another trial, unless that is
  // empty. `on_message` is as in JobRunnerOptions. Returns the errors of
  // OutputDirectory::Claim and MakeRunnerOptions.
  static absl::StatusOr<std::unique_ptr<TrialRun>> Start(
      const Segment& segment, JobLaunch launch,
      std::function<void(const std::string&)> on_message);

  const Segment& segment() const { return segment_; }
  const std::string& folder() const { return folder_; }
  // The newest status of the coordinator.
  const StatusReply& newest() const { return newest_; }

  // As in JobRunner.
  bool Advance(int signal) { return runner_->Advance(signal); }
  absl::Duration Patience() const { return runner_->Patience(); }
  const JobEnd& end() const { return runner_->end(); }

 private:
  TrialRun(const Segment& segment, std::string folder)
      : segment_(segment), folder_(std::move(folder)) {}

  const Segment segment_;
  const std::string folder_;
  std::unique_ptr<OutputDirectory> claimed_;
  StatusReply newest_;
  std::unique_ptr<JobRunner> runner_;  // The last member: ends first.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_TRIAL_RUN_H_
