#include "deploy/launch/slurm/node_agent.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/local_host.h"
#include "common/os/process.h"
#include "common/stream/message_stream.h"
#include "common/transport/channel.h"
#include "common/transport/diagnosis.h"
#include "common/transport/grpc_client_stream.h"
#include "common/transport/security.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/job/supervisor.h"
#include "deploy/launch/slurm/node_agents.pb.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr absl::Duration kAgentTick = absl::Milliseconds(20);
constexpr absl::Duration kConnectTimeout = absl::Seconds(20);
constexpr absl::Duration kRefusalTimeout = absl::Seconds(2);
constexpr size_t kMaxInputBytes = 1 << 20;
constexpr int64_t kMaxSharedFileBytes = 1024;

// Reads one line from the standard input; empty if there is none.
std::string ReadInput() {
  std::string text;
  char byte = 0;
  while (text.size() < kMaxInputBytes) {
    const ssize_t count = read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || byte == '\n') break;
    text += byte;
  }
  return text;
}

// Returns true if a server can listen on the port.
bool PortIsFree(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  // As servers do.
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool is_free =
      bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      listen(fd, 1) == 0;
  close(fd);
  return is_free;
}

// Returns what is wrong with this node for the job; empty: nothing.
std::string CheckNode(const CheckOrder& check) {
  const absl::Time deadline = absl::Now() + absl::Seconds(check.seconds());
  while (true) {
    const absl::StatusOr<std::string> text =
        ReadFile(check.path(), kMaxSharedFileBytes);
    if (text.ok() && *text == check.text()) break;
    if (absl::Now() > deadline) {
      return absl::StrCat(
          "does not see ", check.path(),
          ", which the launcher has written; --output must be a folder on a "
          "file system that all nodes share");
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
  for (const int port : check.ports()) {
    // Port 0 stands for any free port.
    if (port > 0 && !PortIsFree(port)) {
      return absl::StrCat("port ", port,
                          " is in use; choose a different first port with "
                          "--port");
    }
  }
  return std::string();
}

using LauncherStream = GrpcClientStream<AgentOrder, AgentReport>;

// What has arrived from the launcher.
class Inbox final : public ClientSession<AgentOrder, AgentReport> {
 public:
  explicit Inbox(SignalQueue* signals) : signals_(*signals) {}

  // Returns the orders since the last call.
  std::vector<AgentOrder> Take() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return std::exchange(orders_, {});
  }
  // Returns true if the launcher is lost.
  bool gone() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return gone_;
  }

 private:
  bool OnMessage(const AgentOrder& order, ReceivedPayload) override {
    absl::MutexLock lock(&mu_);
    orders_.push_back(order);
    signals_.Wake();
    return true;
  }
  void OnGone(const absl::Status&) override {
    absl::MutexLock lock(&mu_);
    gone_ = true;
    signals_.Wake();
  }

  SignalQueue& signals_;
  mutable absl::Mutex mu_;
  std::vector<AgentOrder> orders_ ABSL_GUARDED_BY(mu_);
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
};

class NodeAgent {
 public:
  NodeAgent(LauncherStream* launcher, Inbox* inbox)
      : launcher_(*launcher), inbox_(*inbox) {}

  // Runs until the launcher ends it or is lost.
  void Run(SignalQueue* signals) {
    while (!ended_ && !inbox_.gone()) {
      const int signal = signals->Wait(kAgentTick);
      if (signal != 0 && signal != SIGCHLD) {
        AgentReport report;
        report.set_signal(signal);
        launcher_.Send(report);
      }
      for (const AgentOrder& order : inbox_.Take()) Handle(order);
      Report();
    }
  }

 private:
  void Handle(const AgentOrder& order) {
    if (order.has_check()) {
      AgentReport report;
      report.set_checked(CheckNode(order.check()));
      launcher_.Send(report);
    } else if (order.has_start()) {
      Start(order.start());
    } else if (order.has_signal()) {
      const auto found = processes_.find(order.signal().process());
      if (found != processes_.end()) {
        supervisor_.Signal(found->second, order.signal().signal());
      }
    } else {
      ended_ |= order.end();
    }
  }

  void Start(const StartOrder& start) {
    ProcessSpec spec;
    spec.name = start.name();
    spec.arguments.assign(start.arguments().begin(), start.arguments().end());
    spec.environment = ChildEnvironment();
    spec.environment.insert(spec.environment.end(), start.variables().begin(),
                            start.variables().end());
    spec.log_path = start.log_path();
    spec.append = start.append();
    if (!start.credentials().empty()) {
      spec.input = start.credentials();
      spec.arguments.insert(spec.arguments.begin() + 2,
                            {"--credentials-fd", "0"});
    }
    const absl::StatusOr<int> process = supervisor_.Start(spec);
    AgentReport report;
    if (process.ok()) {
      processes_[start.process()] = *process;
      numbers_.push_back(start.process());
      ready_.push_back(false);
      report.mutable_started()->set_process(start.process());
      const ProcessState& state = supervisor_.state(*process);
      report.mutable_started()->set_pid(state.pid);
      report.mutable_started()->set_log_begin(state.log_begin);
    } else {
      report.mutable_exit()->set_process(start.process());
      report.mutable_exit()->set_wait_status(kExitFailed << 8);
      report.mutable_exit()->set_failure(
          std::string(process.status().message()));
    }
    launcher_.Send(report);
  }

  // Reports what has happened to the processes since the last call.
  void Report() {
    // Taken first, so that the last lines of a process precede its exit.
    const std::vector<ProcessExit> exits = supervisor_.Reap();
    for (int process = 0; process < supervisor_.size(); ++process) {
      AgentReport report;
      OutputReport* const output = report.mutable_output();
      output->set_process(numbers_[process]);
      if (!ready_[process]) {
        const absl::optional<std::string> text = supervisor_.ReadyText(process);
        ready_[process] = text.has_value();
        output->set_ready(text.value_or(""));
      }
      for (std::string& line : supervisor_.TakeWarnings(process)) {
        output->add_warnings(std::move(line));
      }
      if (!output->ready().empty() || output->warnings_size() > 0) {
        launcher_.Send(report);
      }
    }
    for (const ProcessExit& exit : exits) {
      AgentReport report;
      report.mutable_exit()->set_process(numbers_[exit.process]);
      report.mutable_exit()->set_wait_status(exit.wait_status);
      launcher_.Send(report);
    }
  }

  LauncherStream& launcher_;
  Inbox& inbox_;
  Supervisor supervisor_;
  std::map<int, int> processes_;  // The launcher's number -> Supervisor's.
  std::vector<int> numbers_;      // The reverse.
  std::vector<bool> ready_;       // True if the ready text was reported.
  bool ended_ = false;
};

// Returns the address at which other nodes reach this node, if the network
// knows no better name of it.
std::string OwnAddress(const std::string& launcher) {
  const absl::StatusOr<std::string> address = LocalHostTowards(launcher);
  return address.ok() ? *address : HostName();
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(
    const std::string& launcher, const Security& security) {
  std::shared_ptr<grpc::Channel> channel = CreateChannel(launcher, security);
  // A launcher that has ended refuses connections.
  absl::Time refused = absl::InfiniteFuture();
  const absl::Status connected = AwaitConnected(
      channel.get(), launcher, security, MonotonicNow() + kConnectTimeout, [&] {
        if (channel->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE) {
          refused = std::min(refused, MonotonicNow());
        }
        return MonotonicNow() - refused > kRefusalTimeout;
      });
  if (connected.ok()) return channel;
  const std::string problem = NameProblem(launcher);
  return absl::UnavailableError(absl::StrCat(
      "cannot connect to the launcher at ", launcher, ": ",
      problem.empty() ? std::string(connected.message()) : problem));
}

absl::Status Run(const Environment& environment, SignalQueue* signals) {
  const nlohmann::json input = ParseJson(ReadInput());
  const bool described = input.is_object() && input.contains("security") &&
                         input["security"].is_string();
  const absl::StatusOr<Security> security = ParseSecurity(
      described ? input["security"].get<std::string>() : "", Role::kWorker);
  if (!security.ok()) {
    return absl::InvalidArgumentError(
        "node-agent is started by `tributary train` in a Slurm allocation, "
        "which describes the job on its standard input");
  }
  // Slurm states the address from which srun has started this task.
  std::string host = environment("SLURM_LAUNCH_NODE_IPADDR").value_or("");
  if (host.empty()) host = input.value("host", "");
  const std::string launcher = JoinHostPort(host, input.value("port", 0));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                             Connect(launcher, *security));
  Inbox inbox(signals);
  LauncherStream stream(channel, "/tributary.NodeAgents/Attend");
  stream.Start(&inbox);
  AgentReport report;
  AgentHello* const hello = report.mutable_hello();
  hello->set_node(input.value("node", 0));
  hello->set_start(input.value("start", 0));
  hello->set_cores(UsableCores());
  hello->set_address(OwnAddress(launcher));
  stream.Send(report);
  NodeAgent(&stream, &inbox).Run(signals);
  // The processes have ended, so the launcher may consider the node free.
  stream.Cancel();
  (void)stream.AwaitDone();
  return absl::OkStatus();
}

}  // namespace

int RunNodeAgent(const Environment& environment) {
  SignalQueue signals(/*with_children=*/true);
  const absl::Status status = Run(environment, &signals);
  return status.ok() ? kExitDone : ReportError(status);
}

}  // namespace tributary
