// The processes of a job on the nodes of a Slurm allocation.
#ifndef TRIBUTARY_DEPLOY_SLURM_NODE_SUPERVISOR_H_
#define TRIBUTARY_DEPLOY_SLURM_NODE_SUPERVISOR_H_

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
#include "deploy/launcher/process_control.h"
#include "deploy/launcher/supervisor.h"
#include "deploy/slurm/agent_connection.h"
#include "deploy/slurm/allocation.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Starts an agent (node_agent.h) on each node with srun, and the job's
// processes with the agents. A process whose agent or node is lost counts as
// killed; see ProcessExit::reason. A new agent is then started on the node, and
// a node on which this fails is not used again. All agents, and with them all
// processes, end with this object, and when this process ends for any reason.
// Create and use this object on a thread that outlives the processes (see
// Supervisor). Not thread-safe.
class NodeSupervisor final : public ProcessControl {
 public:
  struct Options {
    std::vector<AllocatedNode> nodes;
    // The folder for the logs of srun and the agents, node-NAME.log.
    std::string log_folder;
    // The path of this program on all nodes.
    std::string program;
    // The text that a process with this ProcessSpec::role reads from its
    // standard input; see PrintSecurity.
    std::map<std::string, std::string> credentials;
    // Time within which all agents must have connected.
    absl::Duration start_timeout = absl::Minutes(2);
    // Time within which a node must see a new file in a shared folder; some
    // file systems delay it by seconds.
    absl::Duration shared_file_timeout = absl::Seconds(10);
  };

  // Returns NotFound if srun is not in PATH, and the system's error if this
  // process cannot listen for the agents.
  static absl::StatusOr<std::unique_ptr<NodeSupervisor>> Create(
      Options options);
  ~NodeSupervisor() override;

  // Starts the agents, and blocks until all have connected. Returns
  // Unavailable, naming the node and the reason, if one cannot be started, and
  // Cancelled after a signal.
  absl::Status StartAgents(SignalQueue* signals);

  // Blocks until each node has checked that it sees `path` with the contents
  // `text`, and that its `ports` (by node) are free. Returns
  // FailedPrecondition, with the node and the problem, otherwise.
  absl::Status Check(const std::string& path, const std::string& text,
                     const std::vector<std::vector<int>>& ports,
                     SignalQueue* signals);

  // Returns the number of cores that the job's processes can use on the node.
  int cores(int node) const { return agents_[node].cores; }
  // Returns a name or address at which other nodes reach the node.
  const std::string& address(int node) const { return agents_[node].address; }
  // Returns `node` if its agent is connected, otherwise another node whose
  // agent is. If there is none, returns `node`.
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
    std::unique_ptr<AgentConnection>
        connection;  // Null until it has said hello.
    // Messages to be sent when the agent has connected.
    std::vector<nlohmann::json> waiting;
    absl::Time deadline;  // Of the connection.
    int cores = 1;
    std::string address;
    bool lost = false;  // True if no agent can be started on the node.
    int starts = 0;
    // The answer to the latest Check.
    absl::optional<std::string> checked;
    std::string failure;  // Why no agent could be started.
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
  // A connection that has not said hello yet.
  struct Stranger {
    LineSocket socket;
    std::string nonce;
    absl::Time deadline;
  };

  explicit NodeSupervisor(Options options);
  absl::Status Listen();
  // Blocks until `done` is true of all agents. Returns Unavailable if one is
  // lost, and Cancelled after a signal.
  absl::Status AwaitAll(SignalQueue* signals,
                        const std::function<bool(const Agent&)>& done);
  void StartAgent(int index);
  void Send(int index, const nlohmann::json& message);
  // Handles everything that has happened. Never blocks.
  void Pump();
  void Accept();
  void HearStrangers();
  // Returns true if `line` is the hello of an agent, whose connection this then
  // is.
  bool Recognize(Stranger* stranger, const std::string& line);
  void Handle(int index, const nlohmann::json& message);
  void HandleOfProcess(const std::string& what, const nlohmann::json& facts);
  void WatchSruns();
  // The agent has not connected, or its connection is lost.
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

#endif  // TRIBUTARY_DEPLOY_SLURM_NODE_SUPERVISOR_H_
