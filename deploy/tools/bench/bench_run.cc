#include "deploy/tools/bench/bench_run.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/temporary_directory.h"
#include "deploy/flags/run_files.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/launch/job/local_job.h"
#include "deploy/launch/job/local_processes.h"
#include "deploy/launch/job/run_token.h"
#include "deploy/launch/job/status_poller.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// The first steps touch memory for the first time.
constexpr int64_t kWarmUpSteps = 3;
// Interval at which the step and the processes' CPU time are read: short enough
// for runs of a second, long enough to be negligible.
constexpr absl::Duration kTick = absl::Milliseconds(50);

// Measures the CPU time of processes between the first reading after the
// warm-up and the last one before the end.
class CpuWatch {
 public:
  // The first `servers` processes are servers. `step` steps are complete.
  void Look(int64_t step, const std::vector<pid_t>& pids, int servers) {
    if (step < kWarmUpSteps || (begin_.has_value() && step == end_.step)) {
      return;
    }
    Sample sample;
    sample.step = step;
    for (size_t i = 0; i < pids.size(); ++i) {
      const absl::optional<double> seconds = CpuSecondsOf(pids[i]);
      if (!seconds.has_value()) return;  // The processes have ended.
      (static_cast<int>(i) < servers ? sample.servers : sample.workers) +=
          *seconds;
    }
    if (!begin_.has_value()) begin_ = sample;
    end_ = sample;
  }

  void Tell(BenchRun* run) const {
    if (!begin_.has_value() || end_.step == begin_->step) return;
    const auto steps = static_cast<double>(end_.step - begin_->step);
    run->server_cpu_per_step = (end_.servers - begin_->servers) / steps;
    run->worker_cpu_per_step = (end_.workers - begin_->workers) / steps;
  }

 private:
  struct Sample {
    int64_t step = 0;
    double servers = 0;
    double workers = 0;
  };

  absl::optional<Sample> begin_;
  Sample end_;
};

absl::StatusOr<nlohmann::json> ParseObject(const std::string& text) {
  nlohmann::json json = ParseJson(text);
  if (!json.is_object()) {
    return absl::InternalError("a process of the benchmark wrote no JSON");
  }
  return json;
}

}  // namespace

absl::optional<double> CpuSecondsOf(pid_t pid) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(pid, &clock) != 0 ||
      clock_gettime(clock, &time) != 0) {
    return absl::nullopt;
  }
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

absl::StatusOr<BenchRun> RunBenchJob(const JobSpec& job,
                                     const BenchProcesses& processes,
                                     SignalQueue* signals) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TemporaryDirectory> directory,
      TemporaryDirectory::Create());
  LocalProcesses local;
  local.output = directory->path();
  local.servers = processes.servers;
  local.workers = {processes.workers, processes.workers};
  local.server_threads = processes.server_threads > 0
                             ? processes.server_threads
                             : ServerThreads(processes.servers);
  local.worker_threads = processes.worker_threads;
  local.server_device = processes.server_device;
  local.worker_device = processes.worker_device;
  local.log.level = "warning";
  TRIBUTARY_RETURN_IF_ERROR(WriteJobFolder(local.output, job));
  Security own_security;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<RunToken> token,
      RunToken::Create(local.output, &local.security, &own_security));

  std::unique_ptr<StatusPoller> poller;
  CpuWatch watch;
  LocalJob* running = nullptr;
  LocalJobOptions options = MakeLocalJob(local);
  options.fewest_workers = options.workers;  // Fewer would be another result.
  options.tick = kTick;
  options.on_started = [&](const std::string& coordinator) {
    poller = std::make_unique<StatusPoller>(coordinator, own_security);
  };
  options.on_tick = [&] {
    const StatusReply status = poller->latest();
    poller->Poll();
    if (status.phase() == StatusReply::TRAINING) {
      watch.Look(status.step(), running->pids(), local.servers);
    }
  };
  LocalJob local_job(std::move(options), signals);
  running = &local_job;
  const LocalJobResult result = local_job.Run();
  TRIBUTARY_RETURN_IF_ERROR(result.status);
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadRunSummary(local.output));
  BenchRun run;
  TRIBUTARY_ASSIGN_OR_RETURN(run.summary, ParseObject(text));
  watch.Tell(&run);
  return run;
}

absl::StatusOr<std::vector<nlohmann::json>> RunBenchPrograms(
    const std::vector<std::vector<std::string>>& arguments,
    SignalQueue* signals) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TemporaryDirectory> directory,
      TemporaryDirectory::Create());
  Supervisor supervisor;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = absl::StrCat("process-", i);
    TRIBUTARY_RETURN_IF_ERROR(
        supervisor
            .Start(OwnProcess(name, arguments[i],
                              absl::StrCat(directory->path(), "/", name)))
            .status());
  }
  while (supervisor.running_count() > 0) {
    const int signal = signals->Wait(absl::Seconds(1));
    if (signal != 0 && signal != SIGCHLD) return StoppedBy(signal);
    for (const ProcessExit& exit : supervisor.Reap()) {
      TRIBUTARY_RETURN_IF_ERROR(CheckExit(supervisor, exit));
    }
  }
  std::vector<nlohmann::json> printed;
  for (size_t i = 0; i < arguments.size(); ++i) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        nlohmann::json json,
        ReadPrintedJson(supervisor.spec(static_cast<int>(i)).log_path));
    printed.push_back(std::move(json));
  }
  return printed;
}

absl::StatusOr<nlohmann::json> ReadPrintedJson(const std::string& log_path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(log_path, kMaxSummaryBytes));
  return ParseObject(text);
}

absl::Status CheckExit(const Supervisor& supervisor, const ProcessExit& exit) {
  if (exit.succeeded()) return absl::OkStatus();
  const std::string reason =
      LastErrorIn(supervisor.spec(exit.process).log_path);
  return absl::AbortedError(absl::StrCat(
      "a process of the benchmark ", reason.empty()
                                         ? DescribeExit(exit.wait_status)
                                         : absl::StrCat("failed: ", reason)));
}

absl::Status StoppedBy(int signal) {
  return absl::CancelledError(
      absl::StrCat("stopped by SIG", sigabbrev_np(signal)));
}

}  // namespace tributary
