#include "deploy/launch/slurm/node_supervisor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/process.h"
#include "deploy/launch/job/local_processes.h"
#include "deploy/launch/slurm/srun_command.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::json;

// Agents started on one node. A node that loses more of them is not used again.
constexpr int kMostStarts = 3;
// An agent that replaces a lost one must connect within this time: the node may
// be down, and its processes wait.
constexpr absl::Duration kRestartTimeout = absl::Seconds(20);
constexpr absl::Duration kStrangerTimeout = absl::Seconds(10);
constexpr size_t kMostStrangers = 256;
constexpr absl::Duration kEndTimeout = absl::Seconds(5);
constexpr absl::Duration kSupervisorTick = absl::Milliseconds(20);
constexpr int64_t kMaxLogBytes = 1 << 20;

// Returns the last line of the log of srun and the agent that states a reason.
std::string LastLineOf(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxLogBytes);
  if (!text.ok()) return std::string();
  std::string last;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.empty() || absl::StrContains(line, "Job step aborted") ||
        absl::StrContains(line, "task 0: Exited") ||
        absl::StrContains(line, "lacks support for cpu binding")) {
      continue;
    }
    for (const char* prefix : {"srun: ", "error: "}) {
      absl::ConsumePrefix(&line, prefix);
    }
    last = std::string(line);
  }
  return last;
}

// Returns true if other nodes can use the name of the node as its address.
bool Resolves(const std::string& name) {
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, nullptr, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

int64_t NumberIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : -1;
}

}  // namespace

NodeSupervisor::NodeSupervisor(Options options) : options_(std::move(options)) {
  for (const AllocatedNode& node : options_.nodes) {
    agents_.emplace_back();
    agents_.back().node = node;
  }
}

absl::StatusOr<std::unique_ptr<NodeSupervisor>> NodeSupervisor::Create(
    Options options) {
  TRIBUTARY_RETURN_IF_ERROR(FindSrun(ProcessEnvironment()).status());
  std::unique_ptr<NodeSupervisor> created(
      new NodeSupervisor(std::move(options)));
  TRIBUTARY_RETURN_IF_ERROR(created->Listen());
  return created;
}

NodeSupervisor::~NodeSupervisor() {
  for (Agent& agent : agents_) {
    if (agent.connection != nullptr) agent.connection->Send({{"end", true}});
  }
  // An agent closes its connection when its processes have ended.
  const absl::Time deadline = absl::Now() + kEndTimeout;
  const auto connected = [](const Agent& agent) {
    return agent.connection != nullptr && agent.connection->open();
  };
  while (std::any_of(agents_.begin(), agents_.end(), connected) &&
         absl::Now() < deadline) {
    for (Agent& agent : agents_) {
      if (agent.connection != nullptr) agent.connection->Receive();
    }
    absl::SleepFor(kSupervisorTick);
  }
  if (listener_ >= 0) close(listener_);
}

absl::Status NodeSupervisor::Listen() {
  listener_ = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_storage any = {};
  socklen_t size = sizeof(sockaddr_in6);
  if (listener_ >= 0) {
    const int no = 0;
    setsockopt(listener_, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    any.ss_family = AF_INET6;
  } else {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    any.ss_family = AF_INET;
    size = sizeof(sockaddr_in);
  }
  if (listener_ < 0 ||
      bind(listener_, reinterpret_cast<sockaddr*>(&any), size) != 0 ||
      listen(listener_, SOMAXCONN) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen for the agents of the nodes: ", strerror(errno)));
  }
  size = sizeof(any);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&any), &size);
  port_ = ntohs(any.ss_family == AF_INET6
                    ? reinterpret_cast<sockaddr_in6*>(&any)->sin6_port
                    : reinterpret_cast<sockaddr_in*>(&any)->sin_port);
  return absl::OkStatus();
}

void NodeSupervisor::StartAgent(int index) {
  Agent& agent = agents_[index];
  agent.connection.reset();
  agent.start_timeout =
      agent.starts == 0 ? options_.start_timeout : kRestartTimeout;
  agent.deadline = absl::Now() + agent.start_timeout;
  ++agent.starts;
  const absl::StatusOr<std::string> key = RandomKey();
  const absl::StatusOr<std::string> srun = FindSrun(ProcessEnvironment());
  if (!key.ok() || !srun.ok()) {
    return LoseAgent(index,
                     std::string((key.ok() ? srun : key).status().message()));
  }
  agent.key = *key;
  ProcessSpec spec;
  spec.name = absl::StrCat("srun for node ", agent.node.name);
  spec.arguments = SrunArguments(*srun, agent.node, options_.program);
  spec.environment = SrunEnvironment(ChildEnvironment());
  spec.log_path =
      absl::StrCat(options_.log_folder, "/node-", agent.node.name, ".log");
  spec.append = agent.starts > 1;
  spec.input = absl::StrCat(Json({{"id", index},
                                  {"host", HostName()},
                                  {"port", port_},
                                  {"key", agent.key},
                                  {"credentials", options_.credentials}})
                                .dump(),
                            "\n");
  const absl::StatusOr<int> started = sruns_.Start(spec);
  if (!started.ok()) {
    return LoseAgent(index, std::string(started.status().message()));
  }
  agent.srun = *started;
}

absl::Status NodeSupervisor::AwaitAll(
    SignalQueue* signals, const std::function<bool(const Agent&)>& done) {
  while (true) {
    Pump();
    for (const Agent& agent : agents_) {
      // One attempt suffices: nothing has run yet.
      if (agent.lost || agent.starts > 1) {
        return absl::UnavailableError(absl::StrCat(
            "cannot start the job's processes on node ", agent.node.name, ": ",
            agent.failure, " (log: ", options_.log_folder, "/node-",
            agent.node.name, ".log)"));
      }
    }
    if (std::all_of(agents_.begin(), agents_.end(), done)) {
      return absl::OkStatus();
    }
    const int signal = signals->Wait(kSupervisorTick);
    if (signal != 0 && signal != SIGCHLD) signal_ = signal;
    if (signal_ != 0) {
      return absl::CancelledError(
          absl::StrCat("stopped by SIG", sigabbrev_np(signal_)));
    }
  }
}

absl::Status NodeSupervisor::StartAgents(SignalQueue* signals) {
  for (int i = 0; i < static_cast<int>(agents_.size()); ++i) StartAgent(i);
  return AwaitAll(
      signals, [](const Agent& agent) { return agent.connection != nullptr; });
}

absl::Status NodeSupervisor::Check(const std::string& path,
                                   const std::string& text,
                                   const std::vector<std::vector<int>>& ports,
                                   SignalQueue* signals) {
  for (size_t i = 0; i < agents_.size(); ++i) {
    agents_[i].checked.reset();
    Send(static_cast<int>(i),
         {{"check",
           {{"file", path},
            {"text", text},
            {"seconds", absl::ToInt64Seconds(options_.shared_file_timeout)},
            {"ports", ports[i]}}}});
  }
  TRIBUTARY_RETURN_IF_ERROR(AwaitAll(
      signals, [](const Agent& agent) { return agent.checked.has_value(); }));
  for (const Agent& agent : agents_) {
    if (!agent.checked->empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("node ", agent.node.name, ": ", *agent.checked));
    }
  }
  return absl::OkStatus();
}

int NodeSupervisor::NodeFor(int node) {
  Pump();
  if (agents_[node].connection != nullptr) return node;
  // Spreads the processes of a lost node over the others.
  const int count = static_cast<int>(agents_.size());
  int best = node;
  int fewest = -1;
  for (int i = 0; i < count; ++i) {
    const Agent& agent = agents_[i];
    if (agent.connection == nullptr ||
        (agent.node.het_group == 0) != (agents_[node].node.het_group == 0)) {
      continue;
    }
    int here = 0;
    for (const Process& process : processes_) {
      if (process.running && process.agent == i) ++here;
    }
    if (fewest < 0 || here < fewest) {
      fewest = here;
      best = i;
    }
  }
  return best;
}

void NodeSupervisor::Send(int index, const Json& message) {
  Agent& agent = agents_[index];
  if (agent.connection != nullptr) {
    agent.connection->Send(message);
  } else {
    agent.waiting.push_back(message);
  }
}

absl::StatusOr<int> NodeSupervisor::Start(const ProcessSpec& spec) {
  const auto found = std::find_if(
      agents_.begin(), agents_.end(),
      [&spec](const Agent& agent) { return agent.node.name == spec.node; });
  if (found == agents_.end() || found->lost) {
    return absl::InternalError(absl::StrCat(
        "cannot start ", spec.name, ": node ", spec.node, " is lost",
        found == agents_.end() || found->failure.empty()
            ? ""
            : absl::StrCat(" (", found->failure, ")")));
  }
  const int index = static_cast<int>(found - agents_.begin());
  // The variables that the agent has not got from srun.
  std::vector<std::string> variables;
  for (const std::string& variable : spec.environment) {
    if (absl::StartsWith(variable, "TRIBUTARY_") ||
        absl::StartsWith(variable, "LOCAL_WORLD_SIZE=")) {
      variables.push_back(variable);
    }
  }
  const int process = size();
  processes_.push_back({});
  processes_.back().spec = spec;
  processes_.back().agent = index;
  Send(index, {{"start",
                {{"id", process},
                 {"name", spec.name},
                 {"arguments", spec.arguments},
                 {"variables", variables},
                 {"log", spec.log_path},
                 {"append", spec.append},
                 {"role", spec.role}}}});
  return process;
}

absl::optional<std::string> NodeSupervisor::ReadyText(int process) {
  Pump();
  return processes_[process].ready;
}

std::vector<std::string> NodeSupervisor::TakeWarnings(int process) {
  return std::exchange(processes_[process].warnings, {});
}

std::vector<ProcessExit> NodeSupervisor::Reap() {
  Pump();
  return std::exchange(exits_, {});
}

void NodeSupervisor::Signal(int process, int signal) {
  if (!processes_[process].running) return;
  Send(processes_[process].agent,
       {{"kill", {{"id", process}, {"signal", signal}}}});
}

int NodeSupervisor::running_count() const {
  return static_cast<int>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const Process& process) { return process.running; }));
}

int NodeSupervisor::TakeSignal() { return std::exchange(signal_, 0); }

void NodeSupervisor::Pump() {
  Accept();
  HearStrangers();
  const absl::Time now = absl::Now();
  for (int i = 0; i < static_cast<int>(agents_.size()); ++i) {
    Agent& agent = agents_[i];
    if (agent.connection == nullptr) {
      if (!agent.lost && agent.starts > 0 && now > agent.deadline) {
        LoseAgent(i, absl::StrCat("its agent did not start within ",
                                  absl::FormatDuration(agent.start_timeout)));
      }
      continue;
    }
    for (const Json& message : agent.connection->Receive()) Handle(i, message);
    agent.connection->Beat(now);
    if (!agent.connection->open()) LoseAgent(i, "its agent was lost");
  }
  WatchSruns();
}

void NodeSupervisor::Accept() {
  while (strangers_.size() < kMostStrangers) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const absl::StatusOr<std::string> nonce = RandomKey();
    if (!nonce.ok()) {
      close(fd);
      return;
    }
    strangers_.push_back(
        {LineSocket(fd), *nonce, absl::Now() + kStrangerTimeout});
    strangers_.back().socket.Send(*nonce);
  }
}

void NodeSupervisor::HearStrangers() {
  std::vector<Stranger> silent;
  for (Stranger& stranger : strangers_) {
    const std::vector<std::string> lines = stranger.socket.Receive(/*most=*/1);
    if (!lines.empty()) {
      Recognize(&stranger, lines.front());
    } else if (stranger.socket.open() && absl::Now() < stranger.deadline) {
      silent.push_back(std::move(stranger));
    }
  }
  strangers_ = std::move(silent);
}

bool NodeSupervisor::Recognize(Stranger* stranger, const std::string& line) {
  const size_t space = line.find(' ');
  int index = -1;
  if (space == std::string::npos ||
      !absl::SimpleAtoi(line.substr(0, space), &index) || index < 0 ||
      index >= static_cast<int>(agents_.size()) ||
      agents_[index].connection != nullptr || agents_[index].key.empty()) {
    return false;
  }
  Agent& agent = agents_[index];
  LineSeal seal(agent.key, stranger->nonce, AgentRole::kLauncher);
  const absl::StatusOr<std::string> text = seal.Open(line.substr(space + 1));
  const Json hello = text.ok() ? ParseJson(*text) : Json();
  if (!hello.is_object() || !hello.contains("address") ||
      !hello["address"].is_string()) {
    return false;
  }
  agent.key.clear();  // A key is for one connection.
  agent.cores =
      static_cast<int>(std::max<int64_t>(1, NumberIn(hello, "cores")));
  agent.address = Resolves(agent.node.name)
                      ? agent.node.name
                      : hello["address"].get<std::string>();
  agent.connection = std::make_unique<AgentConnection>(
      std::move(stranger->socket), std::move(seal));
  for (const Json& message : agent.waiting) agent.connection->Send(message);
  agent.waiting.clear();
  // The whole group: srun has a second process, which would end the step.
  if (agent.srun >= 0) sruns_.Signal(agent.srun, SIGKILL);
  agent.srun = -1;
  return true;
}

void NodeSupervisor::Handle(int index, const Json& message) {
  const std::string what = message.begin().key();
  const Json& value = message.begin().value();
  if (what == "signal" && value.is_number_integer()) {
    if (signal_ == 0) signal_ = value.get<int>();
  } else if (what == "checked" && value.is_string()) {
    agents_[index].checked = value.get<std::string>();
  } else if (value.is_object()) {
    const int64_t id = NumberIn(value, "id");
    if (id >= 0 && id < size() && processes_[id].agent == index) {
      HandleOfProcess(what, value);
    }
  }
}

void NodeSupervisor::HandleOfProcess(const std::string& what,
                                     const Json& facts) {
  const int id = static_cast<int>(NumberIn(facts, "id"));
  Process& process = processes_[id];
  if (what == "started") {
    process.pid = static_cast<pid_t>(NumberIn(facts, "pid"));
    process.log_begin = NumberIn(facts, "log_begin");
  } else if (what == "ready" && facts.value("text", Json()).is_string()) {
    process.ready = facts["text"].get<std::string>();
  } else if (what == "warnings") {
    for (const Json& line : facts.value("lines", Json::array())) {
      if (line.is_string()) process.warnings.push_back(line.get<std::string>());
    }
  } else if (what == "exit") {
    End(id, static_cast<int>(NumberIn(facts, "status")), std::string());
  } else if (what == "failed" && facts.value("reason", Json()).is_string()) {
    constexpr int kExitedWith1 = 1 << 8;  // As waitpid returns it.
    End(id, kExitedWith1, facts["reason"].get<std::string>());
  }
}

void NodeSupervisor::WatchSruns() {
  for (const ProcessExit& exit : sruns_.Reap()) {
    for (int i = 0; i < static_cast<int>(agents_.size()); ++i) {
      if (agents_[i].srun != exit.process) continue;
      agents_[i].srun = -1;
      const std::string reason = LastLineOf(sruns_.spec(exit.process).log_path);
      LoseAgent(i, reason.empty()
                       ? absl::StrCat("srun ", DescribeExit(exit.wait_status))
                       : reason);
    }
  }
}

void NodeSupervisor::LoseAgent(int index, const std::string& failure) {
  Agent& agent = agents_[index];
  const bool was_connected = agent.connection != nullptr;
  agent.failure = failure;
  agent.key.clear();
  agent.connection.reset();
  agent.waiting.clear();
  if (agent.srun >= 0) sruns_.Signal(agent.srun, SIGKILL);
  agent.srun = -1;
  for (int id = 0; id < size(); ++id) {
    if (processes_[id].running && processes_[id].agent == index) {
      End(id, SIGKILL,
          absl::StrCat("was lost with its node ", agent.node.name, " (",
                       failure, ")"));
    }
  }
  agent.lost = !was_connected || agent.starts >= kMostStarts;
  if (!agent.lost) StartAgent(index);
}

void NodeSupervisor::End(int process, int wait_status,
                         const std::string& reason) {
  if (!processes_[process].running) return;
  processes_[process].running = false;
  exits_.push_back({process, wait_status, reason});
}

}  // namespace tributary
