#include "deploy/launch/job/local_processes.h"

#include <limits.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "deploy/flags/environment.h"

namespace tributary {
namespace {

std::string LogsFolder(const std::string& output) {
  return absl::StrCat(output, "/logs");
}

// The path of the job file for server 0.
std::string JobPath(const std::string& output) {
  return absl::StrCat(LogsFolder(output), "/job.textproto");
}

ProcessSpec JobProcess(const LocalProcesses& processes, const std::string& name,
                       const std::string& node,
                       std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--log-format", processes.log.format,
                                     "--log-level", processes.log.level,
                                     "--warning-fd", absl::StrCat(kWarningFd)});
  const std::vector<std::string> security =
      SecurityArguments(processes.security);
  arguments.insert(arguments.end(), security.begin(), security.end());
  if (processes.place_server) {
    arguments.insert(arguments.end(), {"--parent-signals", "1"});
  }
  // The only switch; it follows all flags that have a value.
  if (processes.security.insecure_network) {
    arguments.push_back("--insecure-network");
  }
  ProcessSpec spec =
      OwnProcess(name, std::move(arguments),
                 absl::StrCat(LogsFolder(processes.output), "/", name, ".log"));
  // Keeps the log of the run so far.
  spec.append = !processes.resume.empty();
  spec.node = node;
  return spec;
}

ProcessSpec ServerProcess(const LocalProcesses& processes, int shard,
                          const std::string& coordinator) {
  // The job starts without waiting for spare workers.
  WorkerCount workers = processes.workers;
  workers.most += processes.spares;
  const bool remote = processes.place_server != nullptr;
  ProcessPlace place;
  if (remote) {
    place = processes.place_server(shard, coordinator);
  } else {
    place.listen =
        shard == 0 && !coordinator.empty() ? coordinator : "127.0.0.1:0";
    place.threads = processes.server_threads;
  }
  // Local workers connect soon or not at all, so the timeout is short. A
  // program may read data first, or load large libraries from a slow disk.
  const bool soon = !remote && processes.worker_command.empty();
  std::vector<std::string> arguments = {"server",
                                        JobPath(processes.output),
                                        "--listen",
                                        place.listen,
                                        "--shard",
                                        absl::StrCat(shard),
                                        "--servers",
                                        absl::StrCat(processes.servers),
                                        "--workers",
                                        workers.ToString(),
                                        "--threads",
                                        absl::StrCat(place.threads),
                                        "--device",
                                        processes.server_device,
                                        "--no-worker-timeout",
                                        soon ? "60" : "600",
                                        "--output",
                                        processes.output,
                                        "--ready-fd",
                                        absl::StrCat(kReadyFd)};
  if (shard > 0) {
    arguments.insert(arguments.end(), {"--coordinator", coordinator});
  } else if (!processes.resume.empty()) {
    arguments.insert(arguments.end(), {"--resume", processes.resume});
  } else if (!coordinator.empty()) {
    // Server 0 is restarting.
    arguments.insert(arguments.end(), {"--resume", "auto"});
  }
  if (shard == 0 && processes.allow_job_changes) {
    arguments.push_back("--allow-job-changes");
  }
  if (!place.advertise.empty()) {
    arguments.insert(arguments.end(), {"--advertise", place.advertise});
  }
  if (!processes.metrics_listen.empty()) {
    arguments.insert(
        arguments.end(),
        {"--metrics-listen", MetricsAddress(processes.metrics_listen, shard)});
  }
  ProcessSpec spec = JobProcess(processes, absl::StrCat("server-", shard),
                                place.node, std::move(arguments));
  spec.role = "server";
  return spec;
}

// Replaces the arguments by the variables of the same meaning: "--tls-dir DIR"
// by TRIBUTARY_TLS_DIR=DIR.
void RunCommand(const std::string& command, ProcessSpec* spec) {
  // The program and the subcommand come first.
  for (size_t i = 2; i + 1 < spec->arguments.size(); i += 2) {
    const absl::string_view flag = absl::StripPrefix(spec->arguments[i], "--");
    spec->environment.push_back(absl::StrCat(
        "TRIBUTARY_",
        absl::AsciiStrToUpper(absl::StrReplaceAll(flag, {{"-", "_"}})), "=",
        spec->arguments[i + 1]));
  }
  if (spec->arguments.back() == "--insecure-network") {
    spec->environment.push_back("TRIBUTARY_INSECURE_NETWORK=true");
  }
  spec->arguments = ShellArguments(command);
}

ProcessSpec WorkerProcess(const LocalProcesses& processes, int rank,
                          const std::string& coordinator) {
  ProcessPlace place;
  place.local_rank = rank;
  place.threads = processes.worker_threads;
  const bool remote = processes.place_worker != nullptr;
  if (remote) place = processes.place_worker(rank);
  std::vector<std::string> arguments = {"worker", "--coordinator", coordinator,
                                        "--rank", absl::StrCat(rank)};
  if (place.threads > 0) {
    arguments.insert(arguments.end(),
                     {"--threads", absl::StrCat(place.threads)});
  }
  arguments.insert(arguments.end(),
                   {"--device", processes.worker_device, "--local-rank",
                    absl::StrCat(place.local_rank)});
  if (!place.advertise.empty()) {
    arguments.insert(arguments.end(), {"--advertise", place.advertise});
  }
  if (!processes.metrics_listen.empty() && processes.worker_command.empty()) {
    arguments.insert(
        arguments.end(),
        {"--metrics-listen",
         MetricsAddress(processes.metrics_listen, processes.servers + rank)});
  }
  ProcessSpec spec = JobProcess(processes, absl::StrCat("worker-", rank),
                                place.node, std::move(arguments));
  spec.role = "worker";
  if (remote) {
    spec.environment.push_back(
        absl::StrCat("LOCAL_WORLD_SIZE=", place.local_workers));
  }
  if (!processes.worker_command.empty()) {
    RunCommand(processes.worker_command, &spec);
  }
  return spec;
}

}  // namespace

absl::Status WriteJobFolder(const std::string& output, const JobSpec& job) {
  const std::string logs = LogsFolder(output);
  std::error_code error;
  std::filesystem::create_directories(logs, error);
  if (error) return FileError(error.value(), "cannot create folder", logs);
  return WriteFileAtomically(JobPath(output), {PrintJob(job)});
}

std::string MetricsAddress(const std::string& metrics_listen, int process) {
  const HostPort first = ParseHostPort(metrics_listen).value_or(HostPort());
  return JoinHostPort(first.host, first.port + process);
}

LocalJobOptions MakeLocalJob(const LocalProcesses& processes) {
  LocalJobOptions options;
  options.servers = processes.servers;
  options.workers = static_cast<int>(processes.workers.most + processes.spares);
  if (processes.workers.fewest < processes.workers.most) {
    options.fewest_workers = static_cast<int>(processes.workers.fewest);
  }
  options.server = [processes](int shard, const std::string& coordinator) {
    return ServerProcess(processes, shard, coordinator);
  };
  options.worker = [processes](int rank, const std::string& coordinator) {
    return WorkerProcess(processes, rank, coordinator);
  };
  return options;
}

std::vector<std::string> ChildEnvironment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text = *variable;
    if (!absl::StartsWith(text, "TRIBUTARY_")) {
      variables.emplace_back(text);
    }
  }
  return variables;
}

std::vector<std::string> ShellArguments(const std::string& command) {
  return {"/bin/sh", "-c", absl::StrCat("exec ", command)};
}

std::string OwnProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length > 0 && length < static_cast<ssize_t>(sizeof(path))) {
    const std::string found(path, length);
    if (access(found.c_str(), X_OK) == 0) return found;
  }
  return "/proc/self/exe";
}

ProcessSpec OwnProcess(const std::string& name,
                       std::vector<std::string> arguments,
                       const std::string& log_path) {
  ProcessSpec spec;
  spec.name = name;
  spec.arguments = std::move(arguments);
  spec.arguments.insert(spec.arguments.begin(), OwnProgram());
  spec.environment = ChildEnvironment();
  spec.log_path = log_path;
  return spec;
}

}  // namespace tributary
