#include "deploy/launch/slurm/slurm_placement.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

constexpr int kLowestPort = 20000;
constexpr int kJobsWithOwnPorts = 1000;

// Returns the number of workers on each node: `count` workers, placed on the
// nodes in turn, at most one for each task.
std::vector<int> WorkersPerNode(const std::vector<int>& tasks, int64_t count) {
  std::vector<int> workers(tasks.size(), 0);
  while (count > 0) {
    for (size_t node = 0; node < tasks.size() && count > 0; ++node) {
      if (workers[node] == tasks[node]) continue;
      ++workers[node];
      --count;
    }
  }
  return workers;
}

absl::Status TooFewTasks(const Allocation& allocation, int64_t tasks,
                         int64_t wanted) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the Slurm allocation has ",
      Counted(static_cast<int64_t>(allocation.nodes.size()), "node"), " and ",
      Counted(tasks, "task"), allocation.heterogeneous() ? " for workers" : "",
      ", but ", Counted(wanted, "worker is", "workers are"),
      " requested; request more tasks, as in sbatch --ntasks=", wanted,
      ", or fewer workers with --workers"));
}

}  // namespace

int SlurmPlacement::ServersOn(int node) const {
  return static_cast<int>(
      std::count_if(servers.begin(), servers.end(),
                    [node](const ServerPlace& p) { return p.node == node; }));
}

int SlurmPlacement::WorkersOn(int node) const {
  return static_cast<int>(
      std::count_if(workers.begin(), workers.end(),
                    [node](const WorkerPlace& p) { return p.node == node; }));
}

int FirstPort(int64_t job_id) {
  return kLowestPort +
         kSlurmPorts * static_cast<int>(job_id % kJobsWithOwnPorts);
}

absl::StatusOr<SlurmPlacement> PlaceProcesses(const Allocation& allocation,
                                              const PlacementRequest& request) {
  const bool het = allocation.heterogeneous();
  std::vector<int> tasks;
  int64_t all_tasks = 0;
  for (const AllocatedNode& node : allocation.nodes) {
    tasks.push_back(het && node.het_group == 0 ? 0 : node.tasks);
    all_tasks += tasks.back();
  }
  const int64_t wanted = std::max<int64_t>(1, request.fewest_workers);
  if (all_tasks < wanted) return TooFewTasks(allocation, all_tasks, wanted);
  const int64_t count = request.most_workers == 0
                            ? all_tasks
                            : std::min(all_tasks, request.most_workers);
  const std::vector<int> workers = WorkersPerNode(tasks, count);
  SlurmPlacement placement;
  std::vector<int> server_nodes;
  for (int node = 0; node < static_cast<int>(tasks.size()); ++node) {
    for (int local = 0; local < workers[node]; ++local) {
      placement.workers.push_back({node, local});
    }
    const bool serves =
        het ? allocation.nodes[node].het_group == 0 : workers[node] > 0;
    if (serves) server_nodes.push_back(node);
  }
  const auto nodes = static_cast<int64_t>(server_nodes.size());
  const int64_t servers = request.servers == 0 ? nodes : request.servers;
  if (servers > nodes * kSlurmPorts) {
    return absl::InvalidArgumentError(absl::StrCat(
        Counted(servers, "server"), " on ", Counted(nodes, "node"),
        ": a node can have at most ", kSlurmPorts,
        " servers of a job; request more nodes, or fewer servers with "
        "--servers"));
  }
  const int first = request.port < 0 ? FirstPort(allocation.job_id)
                                     : static_cast<int>(request.port);
  for (int64_t shard = 0; shard < servers; ++shard) {
    // Different for the servers of a node and, as a convenience for clusters
    // that run several nodes on one machine, of neighbouring nodes.
    const int offset =
        static_cast<int>((shard / nodes + shard % nodes) % kSlurmPorts);
    placement.servers.push_back(
        {server_nodes[shard % nodes], first == 0 ? 0 : first + offset});
  }
  return placement;
}

}  // namespace tributary
