#include "deploy/launch/slurm/node_supervisor.h"

#include <netdb.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/process.h"
#include "deploy/flags/security_flags.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/slurm/srun_command.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// Agents started on one node. A node that loses more of them is not used again.
constexpr int kMostStarts = 3;
// An agent that replaces a lost one must connect within this time: the node may
// be down, and its processes wait.
constexpr absl::Duration kRestartTimeout = absl::Seconds(20);
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
  const Options& given = created->options_;
  TRIBUTARY_ASSIGN_OR_RETURN(
      created->server_,
      AgentServer::Start(given.agent_credentials.at(Role::kServer),
                         static_cast<int>(given.nodes.size())));
  return created;
}

NodeSupervisor::~NodeSupervisor() {
  if (server_ == nullptr) return;
  AgentOrder order;
  order.set_end(true);
  for (const Agent& agent : agents_) server_->Send(agent.call, order);
  // The call of an agent ends when its processes have ended.
  const absl::Time deadline = absl::Now() + kEndTimeout;
  const auto connected = [](const Agent& agent) { return agent.call >= 0; };
  while (std::any_of(agents_.begin(), agents_.end(), connected) &&
         absl::Now() < deadline) {
    for (const AgentServer::Event& event : server_->Take()) {
      for (Agent& agent : agents_) {
        if (event.gone && agent.call == event.call) agent.call = -1;
      }
    }
    absl::SleepFor(kSupervisorTick);
  }
}

void NodeSupervisor::StartAgent(int index) {
  Agent& agent = agents_[index];
  agent.start_timeout =
      agent.starts == 0 ? options_.start_timeout : kRestartTimeout;
  agent.deadline = absl::Now() + agent.start_timeout;
  ++agent.starts;
  const absl::StatusOr<std::string> srun = FindSrun(ProcessEnvironment());
  if (!srun.ok()) {
    return LoseAgent(index, std::string(srun.status().message()));
  }
  ProcessSpec spec;
  spec.name = absl::StrCat("srun for node ", agent.node.name);
  spec.arguments = SrunArguments(*srun, agent.node, options_.program);
  spec.environment = SrunEnvironment(ChildEnvironment());
  spec.log_path =
      absl::StrCat(options_.log_folder, "/node-", agent.node.name, ".log");
  spec.append = agent.starts > 1;
  const nlohmann::json input = {
      {"node", index},
      {"start", agent.starts},
      {"host", HostName()},
      {"port", server_->port()},
      {"security",
       PrintSecurity(options_.agent_credentials.at(Role::kWorker))}};
  spec.input = absl::StrCat(input.dump(), "\n");
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
      return StoppedBy(signal_);
    }
  }
}

absl::Status NodeSupervisor::StartAgents(SignalQueue* signals) {
  for (int i = 0; i < static_cast<int>(agents_.size()); ++i) StartAgent(i);
  return AwaitAll(signals, [](const Agent& agent) { return agent.call >= 0; });
}

absl::Status NodeSupervisor::Check(const std::string& path,
                                   const std::string& text,
                                   const std::vector<std::vector<int>>& ports,
                                   SignalQueue* signals) {
  for (size_t i = 0; i < agents_.size(); ++i) {
    agents_[i].checked.reset();
    AgentOrder order;
    CheckOrder* const check = order.mutable_check();
    check->set_path(path);
    check->set_text(text);
    check->set_seconds(absl::ToInt64Seconds(options_.shared_file_timeout));
    for (const int port : ports[i]) check->add_ports(port);
    Send(static_cast<int>(i), order);
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
  if (agents_[node].call >= 0) return node;
  // Spreads the processes of a lost node over the others.
  const int count = static_cast<int>(agents_.size());
  int best = node;
  int fewest = -1;
  for (int i = 0; i < count; ++i) {
    const Agent& agent = agents_[i];
    if (agent.call < 0 ||
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

void NodeSupervisor::Send(int index, const AgentOrder& order) {
  Agent& agent = agents_[index];
  if (agent.call >= 0) {
    server_->Send(agent.call, order);
  } else {
    agent.waiting.push_back(order);
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
  const int process = size();
  AgentOrder order;
  StartOrder* const start = order.mutable_start();
  start->set_process(process);
  start->set_name(spec.name);
  for (const std::string& argument : spec.arguments) {
    start->add_arguments(argument);
  }
  for (const std::string& variable : spec.environment) {
    if (absl::StartsWith(variable, "TRIBUTARY_") ||
        absl::StartsWith(variable, "LOCAL_WORLD_SIZE=")) {
      start->add_variables(variable);
    }
  }
  start->set_log_path(spec.log_path);
  start->set_append(spec.append);
  const auto credentials = options_.credentials.find(spec.role);
  if (credentials != options_.credentials.end()) {
    start->set_credentials(PrintSecurity(credentials->second));
  }
  processes_.push_back({});
  processes_.back().spec = spec;
  processes_.back().agent = index;
  Send(index, order);
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
  AgentOrder order;
  order.mutable_signal()->set_process(process);
  order.mutable_signal()->set_signal(signal);
  Send(processes_[process].agent, order);
}

int NodeSupervisor::TakeSignal() { return std::exchange(signal_, 0); }

void NodeSupervisor::Pump() {
  for (const AgentServer::Event& event : server_->Take()) {
    if (event.report.has_hello()) Recognize(event.call, event.report.hello());
    for (int i = 0; i < static_cast<int>(agents_.size()); ++i) {
      if (agents_[i].call != event.call) continue;
      if (event.gone) {
        LoseAgent(i, "its agent was lost");
      } else {
        Handle(i, event.report);
      }
      break;
    }
  }
  const absl::Time now = absl::Now();
  for (int i = 0; i < static_cast<int>(agents_.size()); ++i) {
    const Agent& agent = agents_[i];
    if (agent.call < 0 && !agent.lost && agent.starts > 0 &&
        now > agent.deadline) {
      LoseAgent(i, absl::StrCat("its agent did not start within ",
                                absl::FormatDuration(agent.start_timeout)));
    }
  }
  WatchSruns();
}

void NodeSupervisor::Recognize(int call, const AgentHello& hello) {
  const int index = hello.node();
  if (index < 0 || index >= static_cast<int>(agents_.size()) ||
      agents_[index].call >= 0 || agents_[index].lost ||
      agents_[index].starts != hello.start()) {
    return server_->Close(call);
  }
  Agent& agent = agents_[index];
  agent.cores = std::max(1, hello.cores());
  agent.address = Resolves(agent.node.name) ? agent.node.name : hello.address();
  agent.call = call;
  for (const AgentOrder& order : agent.waiting) server_->Send(call, order);
  agent.waiting.clear();
  // The whole group: srun has a second process, which would end the step.
  if (agent.srun >= 0) sruns_.Signal(agent.srun, SIGKILL);
  agent.srun = -1;
}

NodeSupervisor::Process* NodeSupervisor::Find(int process, int index) {
  const bool known =
      process >= 0 && process < size() && processes_[process].agent == index;
  return known ? &processes_[process] : nullptr;
}

void NodeSupervisor::Handle(int index, const AgentReport& report) {
  switch (report.kind_case()) {
    case AgentReport::kSignal:
      if (signal_ == 0) signal_ = report.signal();
      break;
    case AgentReport::kChecked:
      agents_[index].checked = report.checked();
      break;
    case AgentReport::kStarted:
      if (Process* const process = Find(report.started().process(), index)) {
        process->pid = report.started().pid();
        process->log_begin = report.started().log_begin();
      }
      break;
    case AgentReport::kOutput:
      if (Process* const process = Find(report.output().process(), index)) {
        if (!report.output().ready().empty()) {
          process->ready = report.output().ready();
        }
        for (const std::string& line : report.output().warnings()) {
          process->warnings.push_back(line);
        }
      }
      break;
    case AgentReport::kExit:
      if (Find(report.exit().process(), index) != nullptr) {
        End(report.exit().process(), report.exit().wait_status(),
            report.exit().failure());
      }
      break;
    default:
      break;
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
  const bool was_connected = agent.call >= 0;
  agent.failure = failure;
  if (was_connected) server_->Close(agent.call);
  agent.call = -1;
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
