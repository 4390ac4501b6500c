// `tributary train` in a Slurm allocation: one worker per task, on all nodes.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_SLURM_TRAINING_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_SLURM_TRAINING_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/job/progress_display.h"
#include "deploy/launch/slurm/allocation.h"
#include "deploy/launch/slurm/slurm_placement.h"
#include "proto/job.pb.h"

namespace tributary {

struct SlurmFlags {
  std::string launcher = "auto";  // "auto", "local" or "slurm".
  int64_t port = -1;              // The first port; -1: not set.
};

// Declares --launcher, which selects this machine or a Slurm allocation, and
// --port, the first port of the servers.
void AddSlurmFlags(CommandLine* line, SlurmFlags* flags);

// Returns the allocation whose nodes the job is to use, or nullopt if the job
// is to use this machine only. Returns the errors of ReadAllocation, and
// InvalidArgument for --launcher slurm outside of an allocation.
absl::StatusOr<absl::optional<Allocation>> AllocationToUse(
    const SlurmFlags& flags, const Environment& environment);

// Returns the number of the allocation's tasks that can be workers.
int64_t TasksForWorkers(const Allocation& allocation);

// Makes output.directory of the job an absolute path, so that a requeued job
// finds its folder. If the field is not set, first sets it to runs/NAME-ID: the
// job's name and Allocation::run_id.
void SetSlurmOutput(const Allocation& allocation, JobSpec* job);

// Places the processes of `launch` on the nodes of the allocation. `servers`
// is 0 and `port` is -1 if the user has not set them. Returns the errors of
// PlaceProcesses.
absl::StatusOr<SlurmPlacement> PlaceTraining(const Allocation& allocation,
                                             const JobLaunch& launch,
                                             int64_t servers, int64_t port);

// A job, and where its processes run in a Slurm allocation.
struct SlurmTraining {
  JobLaunch launch;
  Allocation allocation;
  SlurmPlacement placement;
  int64_t threads = 0;  // Value of --threads; 0: not set.
};

// Runs the job on the nodes of the allocation and shows its progress on
// `display`. Blocks until the job has ended. Processes on different nodes
// authenticate each other with the credentials that `slurm.launch.security`
// names. The files of these credentials are read on this machine and passed
// through the standard input of srun. If no credentials are named and the job
// has processes on several nodes, this function creates credentials that are
// valid for this run and exist only in memory, unless `insecure_network` is
// set. `signals` must have been created with `with_children` set.
JobEnd TrainOnSlurm(const SlurmTraining& slurm, SignalQueue* signals,
                    ProgressDisplay* display);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_SLURM_TRAINING_H_
