#include "tributary/job.h"

#include <atomic>
#include <utility>

#include "common/base/shutdown.h"
#include "common/base/status_macros.h"
#include "library/job_folder.h"
#include "library/job_plan.h"
#include "library/job_result.h"
#include "library/job_run.h"

namespace tributary {

struct Job::State {
  explicit State(Options given) : options(std::move(given)) {}

  const Options options;
  Shutdown stop;
  std::atomic<bool> has_run = false;
};

Job::Job(Options options)
    : state_(std::make_unique<State>(std::move(options))) {}
Job::~Job() = default;

absl::StatusOr<Job::Result> Job::Run() {
  if (state_->has_run.exchange(true)) {
    return absl::FailedPreconditionError(
        "Job::Run was called twice; create another Job for another run");
  }
  if (state_->stop.requested()) {
    return absl::CancelledError("stopped by request");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const JobPlan plan, PlanJob(state_->options));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<JobFolder> folder,
                             JobFolder::Create(state_->options));
  TRIBUTARY_RETURN_IF_ERROR(
      JobRun(plan, state_->options, folder->path()).Run(&state_->stop));
  return ReadJobResult(folder->path());
}

void Job::Stop() { state_->stop.Request(); }

}  // namespace tributary
