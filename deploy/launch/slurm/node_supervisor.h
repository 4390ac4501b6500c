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
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/process_control.h"
#include "deploy/launch/job/supervisor.h"
#include "deploy/launch/slurm/agent_server.h"
#include "deploy/launch/slurm/allocation.h"
#include "deploy/launch/slurm/node_agents.pb.h"

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
    // The credentials that a process with this role reads from its standard
    // input (see PrintSecurity). A process whose role is absent gets none.
    std::map<Role, Security> credentials;
    // The credentials of the agents (kWorker) and of this process (kServer) for
    // each other; see MakeJobSecurity.
    std::map<Role, Security> agent_credentials;
    // Time within which the agents of all nodes must have connected.
    absl::Duration start_timeout = absl::Minutes(2);
    // Maximum time until a node sees a file that another node has created in a
    // shared folder; see Check. On some file systems, this takes seconds.
    absl::Duration shared_file_timeout = absl::Seconds(10);
  };

  // Returns NotFound if srun is not in PATH, and the errors of
  // AgentServer::Start.
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
  const ProcessState& state(int process) const override {
    return processes_[process];
  }
  int size() const override { return static_cast<int>(processes_.size()); }
  int TakeSignal() override;

 private:
  struct Agent {
    AllocatedNode node;
    int srun = -1;  // Number of the latest srun in `sruns_`.
    int call = -1;  // The call of the node's agent; -1 if none is connected.
    // Orders for the agent, to be sent when it has connected.
    std::vector<AgentOrder> waiting;
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
  struct Process : ProcessState {
    int agent = 0;
    absl::optional<std::string> ready;
    std::vector<std::string> warnings;
  };
  explicit NodeSupervisor(Options options);
  // Blocks until `done` returns true for the agent of every node. Returns
  // Unavailable if an agent is lost, and Cancelled after a signal.
  absl::Status AwaitAll(SignalQueue* signals,
                        const std::function<bool(const Agent&)>& done);
  void StartAgent(int index);
  void Send(int index, const AgentOrder& order);
  // Handles reports of agents, exits of srun, and timeouts.
  // Never blocks.
  void Pump();
  // If `hello` is of the agent that was started last on its node, `call`
  // becomes the agent's. Otherwise ends the call.
  void Recognize(int call, const AgentHello& hello);
  void Handle(int index, const AgentReport& report);
  // Returns the process if it was started on the node; otherwise null.
  Process* Find(int process, int index);
  void WatchSruns();
  // Handles the loss of a node's agent, or its failure to connect, for the
  // reason `failure`. Starts a new agent unless the node must not be used
  // again.
  void LoseAgent(int index, const std::string& failure);
  void End(int process, int wait_status, const std::string& reason);

  const Options options_;
  Supervisor sruns_;
  std::vector<Agent> agents_;
  std::vector<Process> processes_;
  std::vector<ProcessExit> exits_;
  int signal_ = 0;
  std::unique_ptr<AgentServer> server_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_SUPERVISOR_H_
