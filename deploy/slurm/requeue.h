// Asks Slurm to run a job again after it was stopped.
#ifndef TRIBUTARY_DEPLOY_SLURM_REQUEUE_H_
#define TRIBUTARY_DEPLOY_SLURM_REQUEUE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "deploy/flags/environment.h"
#include "deploy/slurm/allocation.h"

namespace tributary {

// Returns true if a batch job that has stopped because of `signal` must request
// its requeue itself, because Slurm takes its exit for its end. `facts` is the
// text of `scontrol --oneliner show job`. The job must still be running in the
// eyes of Slurm, which it is not if it was cancelled or if Slurm requeues it.
// Also, the signal must be SIGUSR1 or SIGUSR2, which announce a time limit or a
// preemption, or the job must be one that is being preempted.
bool MustRequeue(int signal, absl::string_view facts);

// If the environment is that of a batch script and MustRequeue is true, runs
// `scontrol requeue`. Slurm may then end this process at any time. Returns
// "requeued the job", or the reason why the job was not requeued; empty if
// nothing was to be done. The output of scontrol is in `log_folder`. Blocks for
// at most 20 seconds. Call it on a thread that outlives the call.
std::string RequeueStoppedJob(const Allocation& allocation, int signal,
                              const Environment& environment,
                              const std::string& log_folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_SLURM_REQUEUE_H_
