#include "deploy/launch/slurm/slurm_training.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/transport/security.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/output_directory.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/slurm/node_supervisor.h"

namespace tributary {
namespace {

// Slurm sends SIGKILL KillWait (default 30 s) after SIGTERM. Server 0 must have
// written the checkpoint before that, and all processes must have ended.
constexpr absl::Duration kSigtermDrainTimeout = absl::Seconds(20);
// No run is longer. The clocks of the nodes may differ by an hour.
constexpr absl::Duration kCertificatesValid = absl::Hours(24 * 400);
constexpr absl::Duration kClockSkew = absl::Hours(1);

bool OnSeveralNodes(const SlurmPlacement& placement) {
  const int first = placement.servers.front().node;
  return std::any_of(
             placement.servers.begin(), placement.servers.end(),
             [first](const ServerPlace& p) { return p.node != first; }) ||
         std::any_of(placement.workers.begin(), placement.workers.end(),
                     [first](const WorkerPlace& p) { return p.node != first; });
}

// Creates credentials that are valid for one run.
absl::StatusOr<std::map<Role, Security>> MakeRunCredentials() {
  const absl::Time now = absl::Now();
  return MakeJobSecurity(now - kClockSkew, now + kCertificatesValid);
}

// Returns the credentials of each role as text; none if the job has none.
absl::StatusOr<std::map<Role, Security>> MakeCredentials(
    const SecurityFlags& flags, bool several_nodes) {
  const bool given = !flags.tls_dir.empty() || !flags.token_file.empty();
  if (!given) {
    if (!several_nodes || flags.insecure_network) {
      return std::map<Role, Security>();
    }
    return MakeRunCredentials();
  }
  if (several_nodes && flags.tls_dir.empty() && !flags.insecure_network) {
    return absl::InvalidArgumentError(
        "--token-file without --tls-dir would send the token to other nodes "
        "unencrypted; add --tls-dir DIR, or --insecure-network in a network "
        "that you trust, or give neither, and both are created for this run");
  }
  std::map<Role, Security> all;
  for (const Role role : {Role::kServer, Role::kWorker}) {
    TRIBUTARY_ASSIGN_OR_RETURN(Security security, ReadSecurity(flags, {role}));
    TRIBUTARY_ASSIGN_OR_RETURN(all[role], WithTexts(std::move(security)));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      Security own, ReadSecurity(flags, {Role::kAdmin, Role::kServer}));
  TRIBUTARY_ASSIGN_OR_RETURN(all[Role::kAdmin], WithTexts(std::move(own)));
  return all;
}

JobEnd ResultOf(const absl::Status& status, int signal_code) {
  return {status, absl::IsCancelled(status) ? signal_code : ExitCodeOf(status)};
}

// Returns the ports of the servers on each node.
std::vector<std::vector<int>> PortsByNode(const SlurmTraining& slurm) {
  std::vector<std::vector<int>> ports(slurm.allocation.nodes.size());
  for (const ServerPlace& place : slurm.placement.servers) {
    ports[place.node].push_back(place.port);
  }
  return ports;
}

// Checks that the nodes share the output folder and that the ports are free.
absl::Status CheckNodes(const SlurmTraining& slurm, NodeSupervisor* nodes,
                        SignalQueue* signals) {
  const std::string path =
      absl::StrCat(slurm.launch.output, "/logs/shared-", RandomSuffix());
  const absl::Cleanup remove = [&path] { unlink(path.c_str()); };
  const std::string text = RandomSuffix();
  TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(path, {text}));
  return nodes->Check(path, text, PortsByNode(slurm), signals);
}

ProcessPlace PlaceOfServer(const SlurmTraining& slurm, bool several_nodes,
                           int shard, const std::string& coordinator,
                           NodeSupervisor* nodes) {
  const ServerPlace& home = slurm.placement.servers[shard];
  // Server 0 stays, because all processes expect it at its address.
  const int node = shard == 0 ? home.node : nodes->NodeFor(home.node);
  const std::string any = several_nodes ? "0.0.0.0" : "127.0.0.1";
  ProcessPlace place;
  place.node = slurm.allocation.nodes[node].name;
  place.threads = std::max(
      1, nodes->cores(node) / std::max(1, slurm.placement.ServersOn(node)));
  // On a different node, another server may have the port.
  int port = node == home.node ? home.port : 0;
  const absl::StatusOr<HostPort> started = ParseHostPort(coordinator);
  // Server 0 is restarting.
  if (shard == 0 && started.ok()) port = started->port;
  place.listen = JoinHostPort(any, port);
  if (several_nodes) {
    place.advertise = port == 0 ? nodes->address(node)
                                : JoinHostPort(nodes->address(node), port);
  }
  return place;
}

// Returns the number of compute threads of a worker on the node; 0 if the
// worker chooses it.
int ThreadsOn(const SlurmTraining& slurm, int node, int cores) {
  if (slurm.threads > 0) return static_cast<int>(slurm.threads);
  // The number depends on whether the worker finds a GPU.
  if (slurm.launch.worker_device != "cpu") return 0;
  const int cpus = slurm.allocation.nodes[node].cpus_per_task;
  const int share = cores / std::max(1, slurm.placement.WorkersOn(node));
  return UsefulThreads(slurm.launch.job, slurm.launch.workers.most,
                       cpus > 0 ? std::min(cpus, cores) : share);
}

ProcessPlace PlaceOfWorker(const SlurmTraining& slurm, bool several_nodes,
                           int rank, NodeSupervisor* nodes) {
  const WorkerPlace& home = slurm.placement.workers[rank];
  const int node = nodes->NodeFor(home.node);
  ProcessPlace place;
  place.node = slurm.allocation.nodes[node].name;
  place.local_rank = home.local_rank;
  place.local_workers = std::max(1, slurm.placement.WorkersOn(node));
  place.threads = ThreadsOn(slurm, node, nodes->cores(node));
  if (several_nodes) place.advertise = nodes->address(node);
  return place;
}

}  // namespace

void AddSlurmFlags(CommandLine* line, SlurmFlags* flags) {
  line->AddChoice("launcher", {"auto", "local", "slurm"},
                  "Where to start the processes. auto: on all nodes of the "
                  "Slurm allocation in which this command runs, else on this "
                  "machine; see docs/slurm.md. Default auto.",
                  &flags->launcher);
  line->AddInteger("port",
                   "In a Slurm allocation: the first port of the servers; 0: "
                   "any free ports. Default: 20000 + 8 (job id mod 1000).",
                   0, 65535 - kSlurmPorts, &flags->port);
}

absl::StatusOr<absl::optional<Allocation>> AllocationToUse(
    const SlurmFlags& flags, const Environment& environment) {
  const bool allocated = InAllocation(environment);
  if (flags.launcher == "slurm" && !allocated) {
    return absl::InvalidArgumentError(
        "--launcher slurm needs a Slurm allocation (SLURM_JOB_ID, "
        "SLURM_JOB_NODELIST); start this command in a batch script or in a "
        "shell of salloc, without srun");
  }
  if (flags.launcher == "local" || !allocated) return absl::nullopt;
  TRIBUTARY_ASSIGN_OR_RETURN(Allocation allocation,
                             ReadAllocation(environment));
  return absl::optional<Allocation>(std::move(allocation));
}

int64_t TasksForWorkers(const Allocation& allocation) {
  int64_t tasks = 0;
  for (const AllocatedNode& node : allocation.nodes) {
    if (node.het_group != 0) tasks += node.tasks;
  }
  return tasks;
}

void SetSlurmOutput(const Allocation& allocation, JobSpec* job) {
  std::string path = job->output().directory();
  if (path.empty()) {
    path = OutputDirectoryOfRun(job->name(), allocation.run_id);
  }
  job->mutable_output()->set_directory(
      std::filesystem::absolute(path).lexically_normal().string());
}

absl::StatusOr<SlurmPlacement> PlaceTraining(const Allocation& allocation,
                                             const JobLaunch& launch,
                                             int64_t servers, int64_t port) {
  PlacementRequest request;
  request.servers = servers;
  request.fewest_workers = launch.workers.fewest + launch.spares;
  request.most_workers = launch.workers.most + launch.spares;
  request.port = port;
  return PlaceProcesses(allocation, request);
}

JobEnd TrainOnSlurm(const SlurmTraining& slurm, SignalQueue* signals,
                    ProgressDisplay* display) {
  const bool several_nodes = OnSeveralNodes(slurm.placement);
  const auto credentials =
      MakeCredentials(slurm.launch.security, several_nodes);
  if (!credentials.ok()) return ResultOf(credentials.status(), 0);
  if (!slurm.launch.worker_command.empty() && !credentials->empty()) {
    return ResultOf(
        absl::InvalidArgumentError(
            "--worker-command in a Slurm allocation of several nodes needs "
            "--insecure-network without --tls-dir and --token-file, because "
            "only `tributary worker` can read credentials that are not in "
            "files; or start the workers with srun, see docs/slurm.md"),
        0);
  }
  NodeSupervisor::Options options;
  options.nodes = slurm.allocation.nodes;
  options.log_folder = absl::StrCat(slurm.launch.output, "/logs");
  options.program = OwnProgram();
  JobLaunch launch = slurm.launch;
  options.credentials = *credentials;
  const auto own = credentials->find(Role::kAdmin);
  if (own != credentials->end()) launch.own_security = own->second;
  auto agent_credentials = MakeRunCredentials();
  if (!agent_credentials.ok()) return ResultOf(agent_credentials.status(), 0);
  options.agent_credentials = *std::move(agent_credentials);
  auto nodes = NodeSupervisor::Create(std::move(options));
  if (!nodes.ok()) return ResultOf(nodes.status(), 0);
  absl::Status prepared = (*nodes)->StartAgents(signals);
  if (prepared.ok()) prepared = CheckNodes(slurm, nodes->get(), signals);
  if (!prepared.ok()) {
    return ResultOf(prepared, ExitCodeOfStop((*nodes)->TakeSignal()));
  }
  // The processes read these credentials from their standard input.
  launch.security.tls_dir.clear();
  launch.security.token_file.clear();
  launch.processes = nodes->get();
  launch.sigterm_drain_timeout = kSigtermDrainTimeout;
  launch.place_server = [&slurm, several_nodes, &nodes](
                            int shard, const std::string& coordinator) {
    return PlaceOfServer(slurm, several_nodes, shard, coordinator,
                         nodes->get());
  };
  launch.place_worker = [&slurm, several_nodes, &nodes](int rank) {
    return PlaceOfWorker(slurm, several_nodes, rank, nodes->get());
  };
  return RunJob(launch, signals, display);
}

}  // namespace tributary
