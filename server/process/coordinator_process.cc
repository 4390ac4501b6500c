#include "server/process/coordinator_process.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/event/job_event.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/os/logger.h"
#include "common/transport/channel.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/coordinator/coordinator.h"
#include "server/process/conclusion.h"
#include "server/process/local_link.h"
#include "server/process/local_server.h"
#include "server/process/metrics_writer.h"
#include "server/process/resume_check.h"
#include "server/process/resume_chooser.h"
#include "server/process/run_output.h"
#include "server/process/server_network.h"
#include "server/process/threaded_checkpoint_committer.h"
#include "server/progress/attempt_history.h"
#include "server/progress/health_watch.h"
#include "server/records/run_records.h"
#include "server/records/tensorboard_log.h"
#include "server/replication/replica_store.h"
#include "server/trace/trace_file.h"

namespace tributary {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
// Interval between checks for a newer attempt.
constexpr absl::Duration kFencingInterval = absl::Seconds(1);
constexpr absl::Duration kStatusInterval = absl::Seconds(1);
// Start timeout of an attempt that follows the loss of a server. Workers rejoin
// at once, or else join later while the job runs.
constexpr absl::Duration kRecoveryTimeout = absl::Seconds(5);

// The state of the coordinator's process that outlives an attempt.
class CoordinatorProcess {
 public:
  CoordinatorProcess(const ServerOptions& options, Shutdown* shutdown,
                     ServerNetwork* network, RunOutput* output)
      : records_({[&options] { return options.make_executor(1); },
                  [this](const JobEvent& event) {
                    if (options_.on_event) options_.on_event(event);
                    metrics_.AppendEvent(event);
                  }}),
        options_(options),
        shutdown_(shutdown),
        network_(network),
        output_(output),
        tensorboard_(options.job, options.output_directory, options.log),
        health_(options.output_directory, options.log, HealthHooks()),
        metrics_(output, options.log, options.make_executor(1),
                 [this](const std::string& line) {
                   tensorboard_.Add(line);
                   health_.Add(line);
                   if (options_.on_metrics) options_.on_metrics(line);
                 }),
        trace_(options.job, options.output_directory, options.files),
        chooser_(options),
        expected_workers_(options.expected_workers),
        start_timeout_(options.start_timeout) {}

  absl::Status Run();

 private:
  struct AttemptEnd {
    Coordinator::Ending ending = Coordinator::Ending::kNone;
    absl::Status status;
    int64_t checkpoint_step = -1;
  };

  // Takes the attempt's number and chooses where it begins.
  absl::StatusOr<std::optional<ResumePoint>> Prepare();
  // Sets attempt_ to the next number, which is on disk when this returns OK. An
  // attempt without a stored number could not be told apart from that of
  // another coordinator. Therefore, after a disk error in a later attempt,
  // blocks and tries again, up to options_.no_server_timeout.
  absl::Status TakeNumber();
  absl::StatusOr<AttemptEnd> RunAttempt(std::optional<ResumePoint> resume);
  // Adds this server to the coordinator and begins to accept calls.
  absl::Status Open(Coordinator* coordinator, ServerLink* link,
                    AttemptServices* services);
  // Rewinds metrics.jsonl to where the attempt begins, on the writing thread.
  void OnBegin(const Beginning& beginning, Coordinator* coordinator);
  Coordinator::Options CoordinatorOptions(std::optional<ResumePoint> resume,
                                          CheckpointCommitter* checkpoints);
  ThreadedCheckpointCommitter::Options CommitterOptions(
      Coordinator* const* coordinator);
  // Alarms become events. Called on the writing thread.
  HealthWatch::Hooks HealthHooks();
  // Adds an event of this process to the records, and returns it with its ID.
  JobEvent AddEvent(JobEvent event);
  // Waits for the attempt's end. Ends it, and releases its servers and workers,
  // if another coordinator began a newer one while this process was suspended.
  Coordinator::Ending Follow(Coordinator* coordinator, LocalServer* local);
  // Writes trace.json if the job traces steps and there are new records. A disk
  // error is only logged.
  void WriteTrace(Coordinator* coordinator);

  RunRecords records_;
  const ServerOptions& options_;
  Shutdown* const shutdown_;
  ServerNetwork* const network_;
  RunOutput* const output_;
  TensorBoardLog tensorboard_;
  HealthWatch health_;
  MetricsWriter metrics_;
  TraceFile trace_;
  ResumeChooser chooser_;
  ReplicaStore replicas_;
  int64_t attempt_ = 0;
  bool first_ = true;
  // Whether any attempt has begun training. Set by a coordinator thread.
  std::atomic<bool> has_begun_ = false;
  std::string run_;  // See JournalScope.
  // Facts from earlier attempts, see Coordinator::Options.
  std::optional<DataFacts> data_;
  AttemptHistory history_;
  int expected_workers_;
  absl::Duration start_timeout_;
};

absl::Status CoordinatorProcess::TakeNumber() {
  const absl::Time began = MonotonicNow();
  Backoff backoff;
  for (bool again = false;; again = true) {
    if (!first_) {
      // A newer attempt belongs to another coordinator, which this process must
      // not supersede.
      const absl::Status current = output_->CheckAttempt(attempt_);
      if (absl::IsFailedPrecondition(current)) return current;
    }
    const absl::StatusOr<int64_t> attempt = output_->NextAttempt();
    if (attempt.ok()) {
      attempt_ = *attempt;
      return absl::OkStatus();
    }
    if (first_ || MonotonicNow() - began > options_.no_server_timeout) {
      return attempt.status();
    }
    if (!again) {
      options_.log->Warning(
          "the next attempt begins when its number can be stored: %s",
          std::string(attempt.status().message()));
    }
    if (!backoff.Wait(shutdown_)) {
      return absl::CancelledError("stopped by request");
    }
  }
}

absl::StatusOr<std::optional<ResumePoint>> CoordinatorProcess::Prepare() {
  TRIBUTARY_RETURN_IF_ERROR(TakeNumber());
  if (first_) {
    run_ = output_->RunId(/*begins=*/!options_.resume);
    records_.Begin({run_, options_.job.name(), PrintJob(options_.job),
                    options_.output_directory});
  }
  TRIBUTARY_ASSIGN_OR_RETURN(std::optional<ResumePoint> resume,
                             chooser_.Choose());
  // If the job resumes, OnBegin writes it once the attempt has begun.
  if (first_ && !resume.has_value()) {
    TRIBUTARY_RETURN_IF_ERROR(output_->WriteJob(options_.job));
  }
  return resume;
}

void CoordinatorProcess::OnBegin(const Beginning& beginning,
                                 Coordinator* coordinator) {
  options_.log->Notify(kStepNotice);
  if (options_.on_begin) options_.on_begin(attempt_, beginning);
  std::string from;
  if (beginning.resumes()) {
    from = absl::StrCat(
        "attempt ", attempt_, ": resumes from step ", beginning.step, ", ",
        beginning.holders.empty() ? beginning.checkpoint
                                  : "held in the servers' memory");
  }
  const bool again = has_begun_.exchange(true);
  records_.BeginChange();
  metrics_.Rewind(
      beginning.step, beginning.job_state.evaluation_step(),
      [this, from, again, step = beginning.step, coordinator,
       attempt = attempt_](const absl::Status& rewound) {
        records_.EndChange(attempt);
        tensorboard_.Begin(step);
        const std::optional<DataFacts> data = coordinator->Facts().data;
        health_.Begin(data.has_value() ? data->steps() : 0);
        if (!from.empty()) options_.log->Info("%s", from);
        if (!again) {
          const absl::Status begun =
              rewound.ok() ? output_->WriteJob(options_.job) : rewound;
          if (!begun.ok()) coordinator->Fail(begun);
        } else if (!rewound.ok()) {
          options_.log->Warning(
              "metrics.jsonl keeps lines of steps that are computed again: %s",
              std::string(rewound.message()));
        }
      });
}

ThreadedCheckpointCommitter::Options CoordinatorProcess::CommitterOptions(
    Coordinator* const* coordinator) {
  ThreadedCheckpointCommitter::Options checkpoints;
  checkpoints.folder = CheckpointsFolder(options_.output_directory);
  checkpoints.best = BestFolder(options_.output_directory);
  checkpoints.retention = {options_.job.checkpoint().keep_last(),
                           options_.job.checkpoint().keep_every()};
  checkpoints.before_commit = [this, coordinator]() -> absl::Status {
    // A job that resumes from this checkpoint does not write the earlier lines
    // again, and may have nothing left to do, so that no worker tells the
    // encoding.
    metrics_.Flush();
    if (const auto data = (*coordinator)->Facts().data) {
      TRIBUTARY_RETURN_IF_ERROR(output_->WriteEncoding(*data));
    }
    return output_->CheckAttempt(attempt_);
  };
  checkpoints.files = options_.files;
  checkpoints.log = options_.log;
  return checkpoints;
}

HealthWatch::Hooks CoordinatorProcess::HealthHooks() {
  HealthWatch::Hooks hooks;
  hooks.on_alarm = [this](int64_t step, const HealthMonitor::Alarm& alarm) {
    JobEvent event;
    event.set_step(step);
    event.set_severity(JobEvent::WARNING);
    event.set_kind(alarm.kind);
    event.set_message(alarm.message);
    output_->AppendEvent(EventLine(AddEvent(std::move(event))));
  };
  return hooks;
}

JobEvent CoordinatorProcess::AddEvent(JobEvent event) {
  event = records_.AddEvent(std::move(event));
  if (options_.on_event) options_.on_event(event);
  return event;
}

Coordinator::Options CoordinatorProcess::CoordinatorOptions(
    std::optional<ResumePoint> resume, CheckpointCommitter* checkpoints) {
  Coordinator::Options job;
  job.job = options_.job;
  job.servers = options_.servers;
  job.expected_workers = expected_workers_;
  job.most_workers = options_.most_workers;
  job.max_workers = options_.limits.workers;
  job.start_timeout = start_timeout_;
  job.lease = options_.lease;
  job.no_worker_timeout = options_.no_worker_timeout;
  job.no_server_timeout = options_.no_server_timeout;
  job.stall_timeout = options_.stall_timeout;
  job.attempt = attempt_;
  job.secret_key = options_.make_secret_key();
  job.resume = std::move(resume);
  job.resume_from_memory = chooser_.uses_own() && history_.trusts_memory();
  job.run = run_;
  job.data = data_;
  job.checkpoints = checkpoints;
  job.on_event = [this](const JobEvent& event) {
    metrics_.AppendEvent(AddEvent(event));
  };
  records_.SetAttempt(attempt_);
  return job;
}

Coordinator::Ending CoordinatorProcess::Follow(Coordinator* coordinator,
                                               LocalServer* local) {
  Coordinator::Ending ending = Coordinator::Ending::kNone;
  absl::Time looked = MonotonicNow();
  absl::Time shown = absl::InfinitePast();
  while (ending == Coordinator::Ending::kNone) {
    ending = coordinator->AwaitEnding(kTick);
    coordinator->Tick();
    (void)coordinator->OnServerReport(/*shard=*/0, local->Heartbeat());
    local->BeatTrace();
    if (coordinator->trace_complete()) WriteTrace(coordinator);
    for (const std::string& notice : coordinator->TakeNotices()) {
      options_.log->Warning("%s", notice);
    }
    if (options_.on_status && MonotonicNow() - shown > kStatusInterval) {
      shown = MonotonicNow();
      options_.on_status(coordinator->GetStatus());
    }
    if (MonotonicNow() - looked > kFencingInterval) {
      looked = MonotonicNow();
      const absl::Status current = output_->CheckAttempt(attempt_);
      if (absl::IsFailedPrecondition(current)) coordinator->Overtaken(current);
    }
    if (shutdown_->requested()) {
      FailpointOrDie("S18");
      options_.log->Notify(kStoppingNotice);
      coordinator->Drain();
    }
  }
  return ending;
}

void CoordinatorProcess::WriteTrace(Coordinator* coordinator) {
  trace_.Add(attempt_, coordinator->TakeTrace());
  if (!trace_.changed()) return;
  const absl::Status written = trace_.Write();
  if (written.ok()) {
    options_.log->Info(
        "wrote the trace of the job's processes to %s/trace.json",
        options_.output_directory);
  } else {
    options_.log->Warning("cannot write the trace: %s",
                          std::string(written.message()));
  }
}

absl::Status CoordinatorProcess::Open(Coordinator* coordinator,
                                      ServerLink* link,
                                      AttemptServices* services) {
  Enlist enlist;
  enlist.set_protocol_version(kProtocolVersion);
  if (auto holdings = replicas_.Holdings()) {
    *enlist.mutable_journal() = *std::move(holdings);
  }
  *enlist.mutable_local_address() = services->local_address();
  SetIdentity(options_, &enlist);
  TRIBUTARY_RETURN_IF_ERROR(coordinator->AddServer(enlist, link));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S1"));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string address, services->Listen());
  if (std::exchange(first_, false)) {
    if (options_.on_listening) options_.on_listening(address);
    options_.log->Info("coordinator listens on %s", address);
    output_->WriteAddress(address);
  }
  services->SetReady(true);
  return absl::OkStatus();
}

absl::StatusOr<CoordinatorProcess::AttemptEnd> CoordinatorProcess::RunAttempt(
    std::optional<ResumePoint> resume) {
  const bool resumes = resume.has_value();
  Coordinator* running = nullptr;
  ThreadedCheckpointCommitter committer(CommitterOptions(&running),
                                        options_.make_executor(1));
  Coordinator::Options job = CoordinatorOptions(std::move(resume), &committer);
  job.on_begin = [this, &running](const Beginning& beginning) {
    OnBegin(beginning, running);
  };
  Coordinator coordinator(job, &MonotonicNow, [this](const std::string& line) {
    metrics_.Append(line);
  });
  running = &coordinator;
  committer.SetCoordinator(&coordinator);
  const absl::Cleanup stop_committer = [&] { committer.Stop(); };
  const std::unique_ptr<AttemptServices> services =
      network_->MakeServices(&coordinator, &records_, &replicas_);
  // Must outlive `local`: the coordinator may answer the server's last reports
  // with orders.
  LocalLink link(options_.log);
  LocalServer local(
      /*shard=*/0,
      {options_.make_executor(1), options_.make_executor(options_.threads)},
      options_.files, services->weights(),
      [&coordinator](const ServerReport& report) {
        const absl::Status status =
            coordinator.OnServerReport(/*shard=*/0, report);
        if (!status.ok()) coordinator.Fail(status);
      });
  local.UsePasses(options_.make_passes);
  local.UseReplicas(&replicas_, services->replicas());
  link.SetServer(&local);
  const MetricsRegistry::Registration metrics = MetricsRegistry::Add(
      options_.metrics, [this, &coordinator, &local](MetricsPage* page) {
        coordinator.AddMetrics(page);
        local.AddMetrics(page);
        health_.AddMetrics(page);
      });
  // Calls use the engine of `local`.
  const absl::Cleanup end_calls = [&] {
    services->ShutDown(absl::ZeroDuration());
  };
  const absl::Status opened = Open(&coordinator, &link, services.get());
  if (!opened.ok()) {
    // Queued metrics writes may call coordinator.Fail, so they must end before
    // the coordinator is destroyed.
    metrics_.Flush();
    return opened;
  }
  AttemptEnd end;
  end.ending = Follow(&coordinator, &local);
  services->SetReady(false);
  local.FinishTrace();
  // Queued writes may call coordinator.Fail, see above.
  metrics_.Flush();
  end.status = coordinator.status();
  const AttemptFacts facts = coordinator.Facts();
  if (facts.data.has_value()) data_ = facts.data;
  end.checkpoint_step = coordinator.GetStatus().checkpoint_step();
  bool rolled_back = end.ending == Coordinator::Ending::kRolledBack ||
                     end.ending == Coordinator::Ending::kDamaged;
  if (rolled_back) {
    history_.Add(facts.has_trained, facts.memory_failed, MonotonicNow());
  }
  if (rolled_back && history_.stuck() > options_.no_server_timeout) {
    rolled_back = false;
    end.ending = Coordinator::Ending::kFailed;
    coordinator.Fail(absl::DeadlineExceededError(
        absl::StrCat("no attempt has trained for ",
                     absl::FormatDuration(options_.no_server_timeout),
                     "; the last one ended with: ", end.status.message())));
  }
  if (rolled_back) {
    // A worker that is missing at the start could not join later.
    expected_workers_ =
        ResolveExchange(options_.job).fixed_members
            ? options_.expected_workers
            : std::clamp(facts.workers_at_ending, 1, options_.expected_workers);
    start_timeout_ = std::min(options_.start_timeout, kRecoveryTimeout);
  } else {
    end.status = Conclude(end.ending == Coordinator::Ending::kTrained,
                          has_begun_ || !resumes,
                          {attempt_, &local, &options_, network_, &coordinator,
                           output_, &metrics_, shutdown_});
    tensorboard_.End(end.status.ok());
  }
  local.replicator()->End();
  services->ShutDown(rolled_back ? kCutTimeout : DrainTimeout(*shutdown_));
  // After the last records of the other servers, which precede their farewells.
  WriteTrace(&coordinator);
  return end;
}

absl::Status CoordinatorProcess::Run() {
  const absl::Cleanup forget = [this] { output_->RemoveAddress(); };
  Backoff backoff;
  while (true) {
    TRIBUTARY_ASSIGN_OR_RETURN(std::optional<ResumePoint> resume, Prepare());
    const std::string from = resume.has_value() ? resume->folder : "";
    TRIBUTARY_ASSIGN_OR_RETURN(const AttemptEnd end, RunAttempt(resume));
    switch (end.ending) {
      case Coordinator::Ending::kDamaged:
        options_.log->Error("%s; resuming from the checkpoint before it",
                            std::string(end.status.message()));
        chooser_.SetDamaged(from);
        break;
      case Coordinator::Ending::kRolledBack:
        options_.log->Warning("%s; starting another attempt",
                              std::string(end.status.message()));
        break;
      case Coordinator::Ending::kDrained:
        return StoppedAt(end.checkpoint_step);
      default:
        return end.status;
    }
    chooser_.UseOwn();
    if (!backoff.Wait(shutdown_)) {
      return absl::CancelledError("stopped by request");
    }
  }
}

}  // namespace

absl::Status RunCoordinator(const ServerOptions& options, Shutdown* shutdown) {
  TRIBUTARY_RETURN_IF_ERROR(CheckServers(options.job, options.servers));
  if (options.resume) {
    TRIBUTARY_RETURN_IF_ERROR(
        CheckResumeRequest({options.job, options.output_directory,
                            options.resume_from, options.allow_job_changes}));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<RunOutput> output,
      RunOutput::Create(options.output_directory, options.log, options.files));
  std::unique_ptr<ServerNetwork> grpc;
  if (options.network == nullptr) grpc = MakeGrpcServerNetwork(options);
  return CoordinatorProcess(options, shutdown,
                            grpc != nullptr ? grpc.get() : options.network,
                            output.get())
      .Run();
}

}  // namespace tributary
