#include "deploy/launch/train/local_training.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/os/file.h"
#include "common/os/process.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/run_files.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/launch/job/event_reporter.h"
#include "deploy/launch/job/local_processes.h"
#include "deploy/launch/job/run_report.h"
#include "deploy/launch/job/run_token.h"
#include "deploy/launch/job/status_poller.h"
#include "deploy/launch/job/supervisor.h"
#include "deploy/launch/plan/local_timing.h"
#include "nlohmann/json.hpp"
#include "proto/rendezvous.pb.h"

namespace tributary {
namespace {

std::string SummaryPath(const std::string& output) {
  return absl::StrCat(output, "/summary.json");
}

// True if steps, or evaluations, are left.
bool NeedsWorkers(const StatusReply& status) {
  switch (status.phase()) {
    case StatusReply::WAITING:
    case StatusReply::TRAINING:
    case StatusReply::EVALUATING:
    case StatusReply::RECOVERING:
      return true;
    default:
      return false;
  }
}

// The job may have completed some steps since the last query.
void ShowEnd(const std::string& output, const StatusReply& newest,
             ProgressDisplay* display) {
  const absl::StatusOr<std::string> summary = ReadRunSummary(output);
  // The caller that needs the missing summary reports it.
  if (!summary.ok()) return;
  const absl::StatusOr<StatusReply> end = FinalStatus(*summary, output, newest);
  if (end.ok()) display->Update(*end, absl::Now());
}

}  // namespace

LocalJobResult TrainLocally(const LocalTraining& training, SignalQueue* signals,
                            ProgressDisplay* display) {
  SecurityFlags security = training.security;
  Security own_security = training.own_security;
  std::unique_ptr<RunToken> token;
  if (training.processes == nullptr) {
    absl::StatusOr<std::unique_ptr<RunToken>> created =
        RunToken::Create(training.output, &security, &own_security);
    if (!created.ok()) return {created.status(), kExitFailed, /*signal=*/0};
    token = *std::move(created);
  }
  LocalProcesses processes;
  processes.output = training.output;
  processes.servers = training.servers;
  processes.workers = training.workers;
  processes.spares = training.spares;
  processes.server_threads = ServerThreads(training.servers);
  processes.worker_threads = training.threads;
  processes.server_device = training.server_device;
  processes.worker_device = training.worker_device;
  processes.worker_command = training.worker_command;
  processes.metrics_listen = training.metrics_listen;
  processes.resume = training.resume;
  processes.allow_job_changes = training.allow_job_changes;
  processes.log = training.log;
  processes.security = security;
  processes.place_server = training.place_server;
  processes.place_worker = training.place_worker;
  LocalJobOptions options = MakeLocalJob(processes);
  options.max_restarts = training.max_restarts;
  options.sigterm_drain_timeout = training.sigterm_drain_timeout;
  std::unique_ptr<StatusPoller> poller;
  std::unique_ptr<EventReporter> reporter;
  options.on_started = [&](const std::string& coordinator) {
    poller = std::make_unique<StatusPoller>(coordinator, own_security);
    reporter = std::make_unique<EventReporter>(coordinator, own_security);
  };
  options.on_event = [&reporter](const JobEvent& event) {
    // Before the start, there is no coordinator.
    if (reporter != nullptr) reporter->Report(event);
  };
  options.on_tick = [&poller, display] {
    poller->Poll();
    display->Update(poller->latest(), absl::Now());
  };
  options.needs_workers = [&poller](absl::Time since) -> absl::optional<bool> {
    if (poller == nullptr || poller->latest_asked() <= since) {
      return absl::nullopt;
    }
    return NeedsWorkers(poller->latest());
  };
  options.on_message = [display](const std::string& text) {
    display->Message(text);
  };
  Supervisor here;
  LocalJob job(std::move(options), signals,
               training.processes == nullptr ? &here : training.processes);
  LocalJobResult result = job.Run();
  // A server that was killed has left the file.
  if (training.processes == nullptr) {
    unlink(absl::StrCat(training.output, "/server.json").c_str());
  }
  if (result.status.ok()) ShowEnd(training.output, poller->latest(), display);
  return result;
}

LocalRun RunOf(const LocalTraining& training) {
  LocalRun run;
  run.job = training.job;
  run.workers = static_cast<int>(training.workers.most);
  run.servers = training.servers;
  run.threads = training.threads;
  run.server_threads = ServerThreads(training.servers);
  run.cores = UsableCores();
  return run;
}

absl::Status AddPrediction(const LocalTraining& training) {
  // The prediction measures the CPU's update.
  if (training.server_device != "cpu") return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadRunSummary(training.output));
  auto summary = ParseOrderedJson(text);
  if (!summary.is_object()) return absl::OkStatus();
  const LocalRun run = RunOf(training);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const PassTiming pass,
      TimePass(JobOfRounds(run.job).optimizer(),
               summary.value("parameters", int64_t{0}), UpdatingThreads(run)));
  const absl::optional<nlohmann::ordered_json> predicted =
      PredictLocalRun(run, summary, pass);
  if (!predicted.has_value()) return absl::OkStatus();
  summary["predicted"] = *predicted;
  return WriteFileAtomically(SummaryPath(training.output),
                             {absl::StrCat(summary.dump(2), "\n")});
}

}  // namespace tributary
