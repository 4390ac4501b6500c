#include "deploy/launch/slurm/node_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/local_host.h"
#include "common/os/process.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/signals.h"
#include "deploy/launch/job/local_processes.h"
#include "deploy/launch/job/supervisor.h"
#include "deploy/launch/slurm/agent_connection.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kAgentTick = absl::Milliseconds(20);
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(20);
constexpr size_t kMaxInputBytes = 1 << 20;
constexpr int64_t kMaxSharedFileBytes = 1024;

std::string Text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

int64_t Number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : 0;
}

std::vector<std::string> Texts(const Json& object, const char* name) {
  std::vector<std::string> texts;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return texts;
  for (const Json& text : *found) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

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

// Returns a connected socket.
absl::StatusOr<int> Connect(const std::string& host, int64_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve ", host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found,
                                                                 freeaddrinfo);
  std::string reason = "no address";
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    timeval timeout = {10, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
    reason = strerror(errno);
    if (fd >= 0) close(fd);
  }
  return absl::UnavailableError(
      absl::StrCat("cannot connect to the launcher at ",
                   JoinHostPort(host, port), ": ", reason));
}

// Returns true if a server can listen on the port.
bool PortIsFree(int64_t port) {
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
std::string CheckNode(const Json& check) {
  const std::string path = Text(check, "file");
  const std::string expected = Text(check, "text");
  const absl::Time deadline =
      absl::Now() + absl::Seconds(Number(check, "seconds"));
  while (true) {
    const absl::StatusOr<std::string> text =
        ReadFile(path, kMaxSharedFileBytes);
    if (text.ok() && *text == expected) break;
    if (absl::Now() > deadline) {
      return absl::StrCat(
          "does not see ", path,
          ", which the launcher has written; --output must be a folder on a "
          "file system that all nodes share");
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
  for (const Json& port : check.value("ports", Json::array())) {
    // Port 0 stands for any free port.
    if (port.is_number_integer() && port.get<int64_t>() > 0 &&
        !PortIsFree(port.get<int64_t>())) {
      return absl::StrCat("port ", port.get<int64_t>(),
                          " is in use; choose a different first port with "
                          "--port");
    }
  }
  return std::string();
}

class NodeAgent {
 public:
  NodeAgent(std::unique_ptr<AgentConnection> connection, Json credentials)
      : connection_(std::move(connection)),
        credentials_(std::move(credentials)) {}

  // Runs until the launcher ends it or is lost.
  void Run(SignalQueue* signals) {
    while (connection_->open() && !ended_) {
      const int signal = signals->Wait(kAgentTick);
      if (signal != 0 && signal != SIGCHLD) {
        connection_->Send({{"signal", signal}});
      }
      for (const Json& message : connection_->Receive()) Handle(message);
      Report();
      connection_->Beat(absl::Now());
    }
  }

 private:
  void Handle(const Json& message) {
    if (message.contains("check")) {
      connection_->Send({{"checked", CheckNode(message["check"])}});
    } else if (message.contains("start")) {
      Start(message["start"]);
    } else if (message.contains("kill")) {
      const auto found = processes_.find(Number(message["kill"], "id"));
      if (found != processes_.end()) {
        supervisor_.Signal(found->second,
                           static_cast<int>(Number(message["kill"], "signal")));
      }
    } else if (message.contains("end")) {
      ended_ = true;
    }
  }

  void Start(const Json& start) {
    const int64_t id = Number(start, "id");
    ProcessSpec spec;
    spec.name = Text(start, "name");
    spec.arguments = Texts(start, "arguments");
    spec.environment = ChildEnvironment();
    for (std::string& variable : Texts(start, "variables")) {
      spec.environment.push_back(std::move(variable));
    }
    spec.log_path = Text(start, "log");
    spec.append = start.value("append", false);
    const std::string credentials =
        Text(credentials_, Text(start, "role").c_str());
    if (!credentials.empty()) {
      spec.input = credentials;
      spec.arguments.insert(spec.arguments.begin() + 2,
                            {"--credentials-fd", "0"});
    }
    const absl::StatusOr<int> process = supervisor_.Start(spec);
    if (!process.ok()) {
      connection_->Send(
          {{"failed",
            {{"id", id},
             {"reason", std::string(process.status().message())}}}});
      return;
    }
    processes_[id] = *process;
    ids_.push_back(id);
    ready_.push_back(false);
    connection_->Send({{"started",
                        {{"id", id},
                         {"pid", supervisor_.pid(*process)},
                         {"log_begin", supervisor_.log_begin(*process)}}}});
  }

  // Reports what has happened to the processes since the last call.
  void Report() {
    // Taken first, so that the last lines of a process precede its exit.
    const std::vector<ProcessExit> exits = supervisor_.Reap();
    for (int process = 0; process < supervisor_.size(); ++process) {
      const int64_t id = ids_[process];
      if (!ready_[process]) {
        const absl::optional<std::string> text = supervisor_.ReadyText(process);
        ready_[process] = text.has_value();
        if (text.has_value()) {
          connection_->Send({{"ready", {{"id", id}, {"text", *text}}}});
        }
      }
      const std::vector<std::string> lines = supervisor_.TakeWarnings(process);
      if (!lines.empty()) {
        connection_->Send({{"warnings", {{"id", id}, {"lines", lines}}}});
      }
    }
    for (const ProcessExit& exit : exits) {
      connection_->Send(
          {{"exit",
            {{"id", ids_[exit.process]}, {"status", exit.wait_status}}}});
    }
  }

  const std::unique_ptr<AgentConnection> connection_;
  const Json credentials_;  // By role.
  Supervisor supervisor_;
  std::map<int64_t, int> processes_;  // The launcher's number -> Supervisor's.
  std::vector<int64_t> ids_;          // The reverse.
  std::vector<bool> ready_;           // True if the ready text was reported.
  bool ended_ = false;
};

// Returns the address at which other nodes reach this node, if the network
// knows no better name of it.
std::string OwnAddress(const std::string& launcher) {
  const absl::StatusOr<std::string> address = LocalHostTowards(launcher);
  return address.ok() ? *address : HostName();
}

absl::Status Run(const Environment& environment, SignalQueue* signals) {
  const Json input = ParseJson(ReadInput());
  if (!input.is_object() || Text(input, "key").empty()) {
    return absl::InvalidArgumentError(
        "node-agent is started by `tributary train` in a Slurm allocation, "
        "which describes the job on its standard input");
  }
  // Slurm states the address from which srun has started this task.
  std::string host = environment("SLURM_LAUNCH_NODE_IPADDR").value_or("");
  if (host.empty()) host = Text(input, "host");
  const int64_t port = Number(input, "port");
  TRIBUTARY_ASSIGN_OR_RETURN(const int fd, Connect(host, port));
  LineSocket socket(fd);
  std::vector<std::string> nonce;
  const absl::Time deadline = absl::Now() + kHandshakeTimeout;
  while (nonce.empty()) {
    pollfd waiting = {socket.fd(), POLLIN, 0};
    poll(&waiting, 1, 100);
    nonce = socket.Receive(/*most=*/1);
    if (nonce.empty() && (!socket.open() || absl::Now() > deadline)) {
      return absl::UnavailableError("the launcher does not answer");
    }
  }
  LineSeal seal(Text(input, "key"), nonce.front(), AgentRole::kAgent);
  const Json hello = {
      {"cores", UsableCores()},
      {"address", OwnAddress(JoinHostPort(host, port))},
  };
  // The launcher learns from the number which key belongs to the line.
  socket.Send(absl::StrCat(Number(input, "id"), " ", seal.Seal(hello.dump())));
  NodeAgent agent(
      std::make_unique<AgentConnection>(std::move(socket), std::move(seal)),
      input.value("credentials", Json::object()));
  agent.Run(signals);
  return absl::OkStatus();
}

}  // namespace

int RunNodeAgent(const Environment& environment) {
  SignalQueue signals(/*with_children=*/true);
  const absl::Status status = Run(environment, &signals);
  return status.ok() ? kExitDone : ReportError(status);
}

}  // namespace tributary
