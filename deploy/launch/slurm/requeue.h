// Requests that Slurm requeue a job that was stopped, so that it runs again.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_REQUEUE_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_REQUEUE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "deploy/flags/environment.h"
#include "deploy/launch/slurm/allocation.h"

namespace tributary {

// Returns true if a batch job that has stopped because of `signal` must itself
// request that Slurm requeue it, because Slurm would otherwise consider the job
// completed when it exits. `facts` is the output of `scontrol --oneliner show
// job`. Two conditions must hold. Slurm still considers the job running; it
// does not if the job was cancelled, or if Slurm requeues the job by itself.
// The signal is SIGUSR1 or SIGUSR2, which announce a time limit or a
// preemption, or it is SIGTERM and the job is being preempted.
bool MustRequeue(int signal, absl::string_view facts);

// Runs `scontrol requeue` if `environment` is that of a batch script and
// MustRequeue is true for the Slurm job of `allocation`. Slurm may then end
// this process at any time. Returns "requeued the job", the reason why
// requeueing failed, or an empty string if the job need not be requeued. The
// output of scontrol is written to `log_folder`. Blocks for at most 20 seconds.
std::string RequeueStoppedJob(const Allocation& allocation, int signal,
                              const Environment& environment,
                              const std::string& log_folder);

// The same for a process that uses its machine only, and does not know whether
// Slurm has started it. Creates `log_folder` if the process is in a Slurm job.
std::string RequeueStoppedJob(int signal, const Environment& environment,
                              const std::string& log_folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_REQUEUE_H_
