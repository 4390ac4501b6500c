#include "deploy/tools/tune/trial_run.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<TrialRun>> TrialRun::Start(
    const Segment& segment, JobLaunch launch,
    std::function<void(const std::string&)> on_message) {
  std::unique_ptr<TrialRun> run(new TrialRun(segment, launch.output));
  auto claimed =
      OutputDirectory::Claim(launch.output, OutputDirectory::Earlier::kResume);
  if (absl::IsUnavailable(claimed.status())) {
    return absl::UnavailableError(
        absl::StrCat(launch.output, ": another process is writing here"));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(run->claimed_, std::move(claimed));
  // Continues with the newest checkpoint, if there is one: that of the segment
  // before this one, or of this one if it was interrupted.
  if (launch.resume.empty()) launch.resume = kResumeAuto;
  TRIBUTARY_RETURN_IF_ERROR(WriteJobFolder(launch));
  TRIBUTARY_ASSIGN_OR_RETURN(JobRunnerOptions options,
                             MakeRunnerOptions(std::move(launch)));
  TrialRun* const self = run.get();
  options.on_tick = [self](const StatusReply& status) {
    self->newest_ = status;
  };
  options.on_message = std::move(on_message);
  run->runner_ = std::make_unique<JobRunner>(std::move(options));
  run->runner_->Start();
  return run;
}

}  // namespace tributary
