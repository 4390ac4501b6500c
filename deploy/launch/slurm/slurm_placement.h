// Places the servers and workers of a job on the nodes of an allocation.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_SLURM_PLACEMENT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_SLURM_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/launch/slurm/allocation.h"

namespace tributary {

// Number of ports on a node that the servers of a job may use. The ports have
// consecutive numbers.
inline constexpr int kSlurmPorts = 8;

struct PlacementRequest {
  int64_t servers = 0;         // Number of servers; 0: one per node.
  int64_t fewest_workers = 0;  // Minimum; 0: at least one worker.
  int64_t most_workers = 0;    // Maximum; 0: as many as tasks.
  // The first port of the servers; 0: any free ports; -1: derived from the
  // Slurm job's id.
  int64_t port = -1;
};

struct ServerPlace {
  int node = 0;  // Index in Allocation::nodes.
  int port = 0;  // 0: any free port.
};

struct WorkerPlace {
  int node = 0;        // Index in Allocation::nodes.
  int local_rank = 0;  // Number of the worker on its node.
};

struct SlurmPlacement {
  std::vector<ServerPlace> servers;  // Indexed by shard.
  std::vector<WorkerPlace> workers;  // Indexed by rank.

  int ServersOn(int node) const;
  int WorkersOn(int node) const;
};

// Returns the first port of a Slurm job: 20000 + 8 (`job_id` mod 1000), so that
// 1,000 jobs with consecutive ids have different ports. All of these ports are
// below the usual range of ephemeral ports.
int FirstPort(int64_t job_id);

// Decides on which node of the allocation each process runs. Places one worker
// per task, up to the requested maximum, and servers evenly over the nodes that
// have workers. In a heterogeneous job, servers are on the nodes of the first
// component, and workers on the nodes of all others. Server 0 is on the first
// node that has servers. Returns InvalidArgument, with the numbers and the
// remedy, if there are fewer tasks than workers requested, if the job has no
// tasks for workers, or if a node would have more than kSlurmPorts servers.
absl::StatusOr<SlurmPlacement> PlaceProcesses(const Allocation& allocation,
                                              const PlacementRequest& request);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_SLURM_PLACEMENT_H_
