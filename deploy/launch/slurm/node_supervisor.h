// Starts and watches the processes of a job on the nodes of a Slurm allocation.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_SUPERVISOR_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_SUPERVISOR_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "deploy/flags/signals.h"
#include "deploy/launch/job/process_control.h"
#include "deploy/launch/job/supervisor.h"
#include "deploy/launch/slurm/agent_connection.h"
#include "deploy/launch/slurm/allocation.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Starts the processes of a job on the nodes of a Slurm allocation. Starts an
// agent (node_agent.h) on each node with srun; the agents start the processes
// and report how they end. If an agent or its node is lost, Reap reports the
// node's processes as killed (see ProcessExit::reason), and a new agent is
// started on the node. A node is not used again if its new agent does not
// connect, or after it has lost three agents. All agents and processes end when
// this object is destroyed, and when this process ends for any reason. Create
// and use this object on a thread that outlives the processes (see Supervisor).
// Not thread-safe.
class NodeSupervisor final : public ProcessControl {
 public:
  struct Options {
    std::vector<AllocatedNode> nodes;
    // The folder for the logs of srun and the agents, node-NAME.log.
    std::string log_folder;
    // The path of this program on all nodes.
    std::string program;
    // Maps each ProcessSpec::role to the text of its credentials (see
    // PrintSecurity), which a process with this role reads from its standard
    // input. A process whose role is absent gets no credentials.
    std::map<std::string, std::string> credentials;
    // Time within which the agents of all nodes must have connected.
    absl::Duration start_timeout = absl::Minutes(2);
    // Maximum time until a node sees a file that another node has created in a
    // shared folder; see Check. On some file systems, this takes seconds.
    absl::Duration shared_file_timeout = absl::Seconds(10);
  };

  // Returns NotFound if srun is not in PATH, and the system's error if this
  // process cannot listen for the agents.
  static absl::StatusOr<std::unique_ptr<NodeSupervisor>> Create(
      Options options);
  ~NodeSupervisor() override;

  // Starts an agent on each node, and blocks until all agents have connected.
  // Returns Unavailable, naming the node and the reason, if an agent cannot be
  // started, and Cancelled after a signal.
  absl::Status StartAgents(SignalQueue* signals);

  // Blocks until each node has checked that it can read the file `path` with
  // the contents `text`, and that the ports `ports[node]` are free on it.
  // Returns FailedPrecondition, with the node and the problem, if a check
  // fails, Unavailable if an agent is lost, and Cancelled after a signal.
  absl::Status Check(const std::string& path, const std::string& text,
                     const std::vector<std::vector<int>>& ports,
                     SignalQueue* signals);

  // Returns the number of cores that the job's processes can use on `node`.
  int cores(int node) const { return agents_[node].cores; }
  // Returns a name or address at which other nodes reach `node`.
  const std::string& address(int node) const { return agents_[node].address; }
  // Returns the node on which to start a process that belongs on `node`. This
  // is `node` if its agent is connected, and otherwise the node with a
  // connected agent that runs the fewest processes. In a heterogeneous job, a
  // process for the first component stays in it, and all other processes stay
  // in the other components. Returns `node` if no node qualifies.
  int NodeFor(int node);

  absl::StatusOr<int> Start(const ProcessSpec& spec) override;
  absl::optional<std::string> ReadyText(int process) override;
  std::vector<std::string> TakeWarnings(int process) override;
  std::vector<ProcessExit> Reap() override;
  void Signal(int process, int signal) override;
  bool running(int process) const override {
    return processes_[process].running;
  }
  int running_count() const override;
  pid_t pid(int process) const override { return processes_[process].pid; }
  int64_t log_begin(int process) const override {
    return processes_[process].log_begin;
  }
  const ProcessSpec& spec(int process) const override {
    return processes_[process].spec;
  }
  int size() const override { return static_cast<int>(processes_.size()); }
  int TakeSignal() override;

 private:
  struct Agent {
    AllocatedNode node;
    int srun = -1;  // Number of the latest srun in `sruns_`.
    std::string key;
    // Null while no agent on the node is connected and authenticated.
    std::unique_ptr<AgentConnection> connection;
    // Messages for the agent, to be sent when it has connected.
    std::vector<nlohmann::json> waiting;
    // `start_timeout` is the time within which the agent must connect after its
    // start; `deadline` is the end of this time.
    absl::Duration start_timeout;
    absl::Time deadline;
    int cores = 1;
    std::string address;
    bool lost = false;  // True if the node is not used again.
    int starts = 0;     // Number of agents that were started on the node.
    // The agent's answer to the latest Check: the problem, or an empty string
    // if there is none. nullopt until the answer has arrived.
    absl::optional<std::string> checked;
    std::string failure;  // Why the latest agent was lost or did not start.
  };
  struct Process {
    ProcessSpec spec;
    int agent = 0;
    bool running = true;
    pid_t pid = -1;
    int64_t log_begin = 0;
    absl::optional<std::string> ready;
    std::vector<std::string> warnings;
  };
  // A connection to a process that has not yet authenticated itself as an
  // agent.
  struct Stranger {
    LineSocket socket;
    std::string nonce;
    absl::Time deadline;
  };

  explicit NodeSupervisor(Options options);
  absl::Status Listen();
  // Blocks until `done` returns true for the agent of every node. Returns
  // Unavailable if an agent is lost, and Cancelled after a signal.
  absl::Status AwaitAll(SignalQueue* signals,
                        const std::function<bool(const Agent&)>& done);
  void StartAgent(int index);
  void Send(int index, const nlohmann::json& message);
  // Handles new connections, messages of agents, exits of srun, and timeouts.
  // Never blocks.
  void Pump();
  void Accept();
  void HearStrangers();
  // If `line` is the authenticated first message of an agent, moves the
  // connection to that agent and returns true. Otherwise returns false.
  bool Recognize(Stranger* stranger, const std::string& line);
  void Handle(int index, const nlohmann::json& message);
  void HandleOfProcess(const std::string& what, const nlohmann::json& facts);
  void WatchSruns();
  // Handles the loss of a node's agent, or its failure to connect, for the
  // reason `failure`. Starts a new agent unless the node must not be used
  // again.
  void LoseAgent(int index, const std::string& failure);
  void End(int process, int wait_status, const std::string& reason);

  const Options options_;
  Supervisor sruns_;
  int listener_ = -1;
  int port_ = 0;
  std::vector<Agent> agents_;
  std::vector<Stranger> strangers_;
  std::vector<Process> processes_;
  std::vector<ProcessExit> exits_;
  int signal_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_SUPERVISOR_H_
