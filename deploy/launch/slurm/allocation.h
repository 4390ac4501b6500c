// The resources that Slurm has allocated to a job, as its environment variables
// describe them.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_ALLOCATION_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_ALLOCATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/flags/environment.h"

namespace tributary {

struct AllocatedNode {
  std::string name;
  int tasks = 1;          // Number of tasks of the job on this node.
  int cpus_per_task = 0;  // 0 if the job does not state it.
  // In a heterogeneous Slurm job, the index of the component to which this node
  // belongs; -1 in all other jobs.
  int het_group = -1;
};

struct Allocation {
  int64_t job_id = 0;
  // Identifies the Slurm job in file names: "4711", or "4711_3" for task 3 of
  // an array. Does not change when Slurm requeues the job.
  std::string run_id;
  // True if Slurm has requeued the Slurm job, so that this is not its first
  // run.
  bool requeued = false;
  std::vector<AllocatedNode> nodes;

  bool heterogeneous() const { return nodes.front().het_group >= 0; }
};

// Returns true in a batch script, in a shell of salloc, and in programs that
// they start. Returns false in a task that srun has started, because such a
// task is one of many that run the same command.
bool InAllocation(const Environment& environment);

// Reads the allocation of a Slurm job from SLURM_JOB_ID, SLURM_JOB_NODELIST,
// SLURM_TASKS_PER_NODE (one task per node if it is not set),
// SLURM_CPUS_PER_TASK, SLURM_ARRAY_JOB_ID, SLURM_ARRAY_TASK_ID and
// SLURM_RESTART_COUNT; in a heterogeneous job, from the variables of each
// component, such as SLURM_JOB_NODELIST_HET_GROUP_0. Returns InvalidArgument,
// naming the variable, if one is missing or malformed.
absl::StatusOr<Allocation> ReadAllocation(const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_ALLOCATION_H_
