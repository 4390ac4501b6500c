#include "deploy/launch/job/job_launch.h"

#include <limits.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/plan/memory_notice.h"
#include "common/text/escape.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/run_files.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/launch/job/coordinator_client.h"
#include "deploy/launch/job/run_report.h"
#include "deploy/launch/job/run_token.h"
#include "deploy/launch/job/supervisor.h"

namespace tributary {
namespace {

std::string LogsFolder(const std::string& output) {
  return absl::StrCat(output, "/logs");
}

// The path of the job file for server 0.
std::string JobPath(const std::string& output) {
  return absl::StrCat(LogsFolder(output), "/job.textproto");
}

ProcessSpec JobProcess(const JobLaunch& launch, const std::string& name,
                       const std::string& node,
                       std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--log-format", launch.log.format,
                                     "--log-level", launch.log.level,
                                     "--warning-fd", absl::StrCat(kWarningFd)});
  const std::vector<std::string> security = SecurityArguments(launch.security);
  arguments.insert(arguments.end(), security.begin(), security.end());
  if (launch.place_server) {
    arguments.insert(arguments.end(), {"--parent-signals", "1"});
  }
  // The only switch; it follows all flags that have a value.
  if (launch.security.insecure_network) {
    arguments.push_back("--insecure-network");
  }
  ProcessSpec spec =
      OwnProcess(name, std::move(arguments),
                 absl::StrCat(LogsFolder(launch.output), "/", name, ".log"));
  // Keeps the log of the run so far.
  spec.append = !launch.resume.empty();
  spec.node = node;
  return spec;
}

ProcessSpec ServerProcess(const JobLaunch& launch, int shard,
                          const std::string& coordinator) {
  // The job starts without waiting for spare workers.
  WorkerCount workers = launch.workers;
  workers.most += launch.spares;
  const bool remote = launch.place_server != nullptr;
  ProcessPlace place;
  if (remote) {
    place = launch.place_server(shard, coordinator);
  } else {
    place.listen =
        shard == 0 && !coordinator.empty() ? coordinator : "127.0.0.1:0";
    place.threads = launch.ThreadsOfServer();
  }
  // Local workers connect soon or not at all, so the timeout is short. A
  // program may read data first, or load large libraries from a slow disk.
  const bool soon = !remote && launch.worker_command.empty();
  std::vector<std::string> arguments = {"server",
                                        JobPath(launch.output),
                                        "--listen",
                                        place.listen,
                                        "--shard",
                                        absl::StrCat(shard),
                                        "--servers",
                                        absl::StrCat(launch.servers),
                                        "--workers",
                                        workers.ToString(),
                                        "--threads",
                                        absl::StrCat(place.threads),
                                        "--device",
                                        launch.server_device,
                                        "--no-worker-timeout",
                                        soon ? "60" : "600",
                                        "--output",
                                        launch.output,
                                        "--ready-fd",
                                        absl::StrCat(kReadyFd)};
  if (shard > 0) {
    arguments.insert(arguments.end(), {"--coordinator", coordinator});
  } else if (!launch.resume.empty()) {
    arguments.insert(arguments.end(), {"--resume", launch.resume});
  } else if (!coordinator.empty()) {
    // Server 0 is restarting.
    arguments.insert(arguments.end(), {"--resume", "auto"});
  }
  if (shard == 0 && launch.allow_job_changes) {
    arguments.push_back("--allow-job-changes");
  }
  if (!place.advertise.empty()) {
    arguments.insert(arguments.end(), {"--advertise", place.advertise});
  }
  if (!launch.metrics_listen.empty()) {
    arguments.insert(
        arguments.end(),
        {"--metrics-listen", MetricsAddress(launch.metrics_listen, shard)});
  }
  ProcessSpec spec = JobProcess(launch, absl::StrCat("server-", shard),
                                place.node, std::move(arguments));
  return spec;
}

// Replaces the arguments by the variables of the same meaning: "--tls-dir DIR"
// by TRIBUTARY_TLS_DIR=DIR.
void RunCommand(const JobLaunch& launch, ProcessSpec* spec) {
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
  spec->arguments = ShellArguments(launch.worker_command, launch.worker_folder);
}

ProcessSpec WorkerProcess(const JobLaunch& launch, int rank,
                          const std::string& coordinator) {
  ProcessPlace place;
  place.local_rank = rank;
  place.threads = launch.threads;
  const bool remote = launch.place_worker != nullptr;
  if (remote) place = launch.place_worker(rank);
  std::vector<std::string> arguments = {"worker", "--coordinator", coordinator,
                                        "--rank", absl::StrCat(rank)};
  if (place.threads > 0) {
    arguments.insert(arguments.end(),
                     {"--threads", absl::StrCat(place.threads)});
  }
  arguments.insert(arguments.end(),
                   {"--device", launch.worker_device, "--local-rank",
                    absl::StrCat(place.local_rank)});
  if (!place.advertise.empty()) {
    arguments.insert(arguments.end(), {"--advertise", place.advertise});
  }
  if (!launch.data_cache.empty()) {
    arguments.insert(arguments.end(), {"--data-cache", launch.data_cache});
  }
  if (!launch.metrics_listen.empty() && launch.worker_command.empty()) {
    arguments.insert(arguments.end(), {"--metrics-listen",
                                       MetricsAddress(launch.metrics_listen,
                                                      launch.servers + rank)});
  }
  ProcessSpec spec = JobProcess(launch, absl::StrCat("worker-", rank),
                                place.node, std::move(arguments));
  if (remote) {
    spec.environment.push_back(
        absl::StrCat("LOCAL_WORLD_SIZE=", place.local_workers));
  }
  if (!launch.worker_command.empty()) {
    RunCommand(launch, &spec);
  }
  return spec;
}

}  // namespace

int JobLaunch::ThreadsOfServer() const {
  return server_threads > 0 ? server_threads : ServerThreads(servers);
}

absl::Status WriteJobFolder(const JobLaunch& launch) {
  const std::string logs = LogsFolder(launch.output);
  std::error_code error;
  std::filesystem::create_directories(logs, error);
  if (error) return FileError(error.value(), "cannot create folder", logs);
  return WriteFileAtomically(JobPath(launch.output), {PrintJob(launch.job)});
}

std::string MetricsAddress(const std::string& metrics_listen, int process) {
  const HostPort first = ParseHostPort(metrics_listen).value_or(HostPort());
  return JoinHostPort(first.host, first.port + process);
}

absl::StatusOr<JobRunnerOptions> MakeRunnerOptions(JobLaunch launch) {
  std::shared_ptr<RunToken> token;
  if (launch.processes == nullptr) {
    TRIBUTARY_ASSIGN_OR_RETURN(token,
                               RunToken::Create(launch.output, &launch.security,
                                                &launch.own_security));
  }
  if (!launch.worker_folder.empty()) {
    // Workers find these paths in their environment.
    for (std::string* const path :
         {&launch.security.tls_dir, &launch.security.token_file}) {
      if (!path->empty()) *path = std::filesystem::absolute(*path).string();
    }
  }
  JobRunnerOptions options;
  options.servers = launch.servers;
  options.workers = static_cast<int>(launch.workers.most + launch.spares);
  if (launch.workers.fewest < launch.workers.most) {
    options.fewest_workers = static_cast<int>(launch.workers.fewest);
  }
  options.max_restarts = static_cast<int>(launch.max_restarts);
  options.sigterm_drain_timeout = launch.sigterm_drain_timeout;
  options.connect = [security =
                         launch.own_security](const std::string& address) {
    return CoordinatorClient::Connect(address, security);
  };
  options.worker = [launch](int rank, const std::string& coordinator) {
    return WorkerProcess(launch, rank, coordinator);
  };
  // Keeps the token while the job may start processes.
  options.server = [launch = std::move(launch), token](
                       int shard, const std::string& coordinator) {
    return ServerProcess(launch, shard, coordinator);
  };
  return options;
}

JobEnd RunJob(const JobLaunch& launch, SignalQueue* signals,
              ProgressDisplay* display) {
  absl::StatusOr<JobRunnerOptions> options = MakeRunnerOptions(launch);
  if (!options.ok()) return {options.status(), kExitFailed};
  JobEnd end = RunShown(
      *std::move(options), launch.processes, launch.output,
      [signals](absl::Duration longest) { return signals->Wait(longest); },
      display);
  // A server that was killed has left the file.
  if (launch.processes == nullptr) {
    unlink(absl::StrCat(launch.output, "/server.json").c_str());
  }
  return end;
}

JobEnd RunShown(JobRunnerOptions options, ProcessControl* processes,
                const std::string& output,
                const std::function<int(absl::Duration)>& next_signal,
                ProgressDisplay* display) {
  StatusReply newest;
  MemoryNotice memory;
  options.on_tick = [&newest, &memory, display](const StatusReply& status) {
    newest = status;
    display->ShowStages(status);
    for (const std::string& line : memory.Update(status)) {
      // Names of hosts come from peers.
      display->Message(EscapeForTerminal(line));
    }
    display->Update(status, absl::Now());
  };
  options.on_message = [display](const std::string& text) {
    display->Message(text);
  };
  JobEnd end = JobRunner(std::move(options), processes).Wait(next_signal);
  if (!end.status.ok()) return end;
  // The job may have completed some steps since the last query. The caller that
  // needs a missing summary reports it.
  const auto summary = ReadRunSummary(output);
  if (summary.ok()) {
    display->Update(FinalStatus(*summary, std::move(newest)), absl::Now());
  }
  return end;
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

std::vector<std::string> ShellArguments(const std::string& command,
                                        const std::string& folder) {
  if (folder.empty()) return {"/bin/sh", "-c", absl::StrCat("exec ", command)};
  return {"/bin/sh", "-c", absl::StrCat("cd -- \"$0\" && exec ", command),
          folder};
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
