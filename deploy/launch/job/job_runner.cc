#include "deploy/launch/job/job_runner.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/text/counted.h"
#include "deploy/flags/exit_code.h"
#include "deploy/launch/job/supervisor.h"

namespace tributary {

namespace {

// Replaces stop_timeout on a cluster, where signals may be late.
constexpr absl::Duration kClusterStopTimeout = absl::Seconds(5);

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

// Returns true if the coordinator, when it was asked after this time, waited
// for workers: it knew of no failure.
bool WaitsForWorkers(const CoordinatorClient& coordinator,
                     absl::Time asked_after) {
  if (coordinator.latest_asked() <= asked_after) return false;
  const StatusReply newest = coordinator.latest();
  return NeedsWorkers(newest) && newest.failure().empty();
}

}  // namespace

JobRunnerOptions JobRunnerOptions::ForThreads() {
  JobRunnerOptions options;
  options.server_0_decides = true;
  options.start_timeout = absl::InfiniteDuration();
  options.drain_timeout = absl::InfiniteDuration();
  options.silence_timeout = absl::InfiniteDuration();
  options.failure_timeout = absl::ZeroDuration();
  return options;
}

JobRunner::JobRunner(JobRunnerOptions options, ProcessControl* processes)
    : options_(std::move(options)),
      own_processes_(processes == nullptr ? std::make_unique<Supervisor>()
                                          : nullptr),
      processes_(processes == nullptr ? *own_processes_ : *processes),
      messages_(options_.on_message,
                [this](JobEvent event) {
                  // Before the start, there is no coordinator.
                  if (coordinator_ != nullptr) {
                    coordinator_->Report(std::move(event));
                  }
                }),
      members_(
          &processes_,
          [this](Role role, int number, const std::string& address) {
            return role == Role::kServer ? options_.server(number, address)
                                         : options_.worker(number, address);
          },
          options_.max_restarts, &messages_) {}

JobEnd JobRunner::Wait(SignalQueue* signals) {
  return Wait(
      [signals](absl::Duration longest) { return signals->Wait(longest); });
}

JobEnd JobRunner::Wait(const std::function<int(absl::Duration)>& next_signal) {
  Start();
  int signal = 0;
  while (Advance(signal)) signal = next_signal(Patience());
  return end();
}

void JobRunner::Start() {
  phase_ = Phase::kStarting;
  start_deadline_ = options_.clock() + options_.start_timeout;
  Started(members_.Start(Role::kServer, 0));
}

bool JobRunner::Advance(int signal) {
  if (signal != 0 && signal != SIGCHLD) HandleSignal(signal);
  const int remote_signal = processes_.TakeSignal();
  if (remote_signal != 0) HandleSignal(remote_signal);
  HandleExits();
  switch (phase_) {
    case Phase::kStarting:
      if (!end_.has_value()) StartOthers();
      break;
    case Phase::kRunning:
      messages_.ShowDue(options_.clock());
      Tick();
      CheckEarlyEnds();
      break;
    case Phase::kDraining:
      Tick();
      break;
    default:
      break;
  }
  if (phase_ < Phase::kDraining && (end_.has_value() || Finished())) {
    EndProcesses();
  }
  if (phase_ == Phase::kDraining && Drained()) phase_ = Phase::kStopping;
  if (phase_ == Phase::kStopping) StopRemaining();
  return phase_ != Phase::kEnded;
}

absl::Duration JobRunner::Patience() const {
  switch (phase_) {
    case Phase::kStarting:
      return absl::Milliseconds(5);
    case Phase::kRunning:
      return options_.tick;
    case Phase::kStopping:
      return std::min(stop_deadline_ - options_.clock(),
                      absl::Milliseconds(100));
    default:
      return absl::Milliseconds(100);
  }
}

void JobRunner::Pause() {
  if (end_.has_value()) return;  // The job is ending already.
  Drain({absl::CancelledError("paused"), kExitPreempted},
        options_.drain_timeout);
}

void JobRunner::Stop() {
  Drain({absl::CancelledError("stopped"), kExitFailed}, absl::ZeroDuration());
  processes_.SignalAll(SIGKILL);
}

void JobRunner::StartOthers() {
  const ProcessSpec& server = members_.spec(members_.server_0());
  const absl::optional<std::string> address =
      processes_.ReadyText(members_.server_0());
  if (!address.has_value()) {
    // A server that has finished does not accept workers any more.
    if (Finished() || options_.clock() <= start_deadline_) return;
    end_ = JobEnd{absl::DeadlineExceededError(
                      absl::StrCat(server.name, " did not start within ",
                                   absl::FormatDuration(options_.start_timeout),
                                   "; its log is ", server.log_path)),
                  kExitFailed};
    return;
  }
  members_.set_address(*address);
  for (int shard = 1; shard < options_.servers; ++shard) {
    if (!Started(members_.Start(Role::kServer, shard))) return;
  }
  for (int rank = 0; rank < options_.workers; ++rank) {
    if (!Started(members_.Start(Role::kWorker, rank))) return;
  }
  if (options_.connect) coordinator_ = options_.connect(*address);
  phase_ = Phase::kRunning;
}

bool JobRunner::Started(const absl::Status& status) {
  if (!status.ok()) end_ = JobEnd{status, kExitFailed};
  return status.ok();
}

bool JobRunner::Restart(const ProcessExit& exit) {
  const bool others_are_done = servers_done_ > 0;
  if (others_are_done && exit.process != members_.server_0()) return false;
  const absl::optional<absl::Status> restarted = members_.Restart(exit);
  if (!restarted.has_value()) return false;
  if (Started(*restarted) && others_are_done) {
    // Server 0 ends the job again, and needs the others for it.
    servers_done_ = 0;
    Started(members_.StartEnded());
  }
  return true;
}

void JobRunner::HandleSignal(int signal) {
  const bool killed_later =
      signal == SIGTERM && options_.sigterm_drain_timeout.has_value();
  if (draining_ && end_->signal != 0) {
    if (!killed_later && EndsImmediately(end_->signal, signal)) {
      processes_.SignalAll(SIGKILL);
    }
    if (killed_later) {
      drain_deadline_ = std::min(
          drain_deadline_, options_.clock() + *options_.sigterm_drain_timeout);
    }
    return;
  }
  Drain(
      {StoppedBy(signal), ExitCodeOfStop(signal), signal},
      killed_later ? *options_.sigterm_drain_timeout : options_.drain_timeout);
}

void JobRunner::Drain(JobEnd end, absl::Duration timeout) {
  messages_.ShowHeldBack();
  draining_ = true;
  drain_deadline_ = std::min(drain_deadline_, options_.clock() + timeout);
  explanation_awaited_ = false;
  end_ = std::move(end);
}

void JobRunner::HandleExits() {
  const std::vector<ProcessExit> exits = members_.Reap();
  if (!exits.empty()) last_exit_ = options_.clock();
  // Warnings of a process come before the message about its exit.
  const bool shows = !end_.has_value() || end_->status.ok() || draining_;
  if (members_.PassWarnings(shows)) last_sign_ = options_.clock();
  for (const ProcessExit& exit : exits) HandleExit(exit);
}

void JobRunner::HandleExit(const ProcessExit& exit) {
  const ProcessSpec& spec = members_.spec(exit.process);
  if (end_.has_value()) {  // Only the first result counts.
    if (exit.process != members_.server_0()) return;
    if (draining_) end_->paused = exit.exited_with(kExitPreempted);
    // The job was done before the pause.
    if (draining_ && end_->signal == 0 && exit.succeeded()) end_ = JobEnd();
    if (!explanation_awaited_) return;
    explanation_awaited_ = false;
    const bool ended_from_outside =
        exit.killed_by_signal() || absl::IsCancelled(exit.status);
    if (!exit.succeeded() && !ended_from_outside) Fail(exit, "");
  } else if (spec.role == Role::kServer) {
    HandleServerExit(exit);
  } else {
    HandleWorkerExit(exit);
  }
}

void JobRunner::HandleServerExit(const ProcessExit& exit) {
  if (exit.succeeded()) {
    const bool decides = exit.process == members_.server_0();
    if (decides) job_done_ = true;
    if (!options_.server_0_decides || decides) ++servers_done_;
    return;
  }
  // Servers end when server 0 has what it needs of all of them.
  const bool needed = servers_done_ == 0 ||
                      exit.process == members_.server_0() ||
                      !processes_.running(members_.server_0());
  if (exit.stopped() && (!needed || Restart(exit))) return;
  Fail(exit, "");
}

void JobRunner::HandleWorkerExit(const ProcessExit& exit) {
  // The coordinator is ending the job without the worker.
  const bool released = coordinator_ == nullptr && !early_ends_.empty();
  if (servers_done_ > 0 || released) return;
  if (exit.succeeded()) {
    early_ends_.emplace_back(exit, options_.clock());
    return;
  }
  if (exit.stopped() && Restart(exit)) return;
  const bool lost = exit.stopped() || exit.refused();
  const int left = members_.Running(Role::kWorker);
  if (lost && left >= options_.fewest_workers) {
    const ProcessSpec& spec = members_.spec(exit.process);
    const std::string text =
        absl::StrCat(spec.name, " ", members_.Describe(exit), "; ",
                     Counted(left, "worker continues", "workers continue"));
    if (exit.refused()) {
      messages_.WarnLater(spec, "process_ended", text,
                          options_.clock() + options_.failure_timeout);
    } else {
      messages_.Warn(spec, "process_ended", text);
    }
    return;
  }
  // The error names this worker only.
  if (!exit.refused()) messages_.ShowHeldBack();
  std::string prefix;
  if (lost && left > 0) {
    prefix = absl::StrCat(
        "only ", left, " of at least ",
        Counted(options_.fewest_workers, "worker is", "workers are"),
        " left: ");
  } else if (exit.stopped()) {
    prefix = "no worker is left: ";
  }
  Fail(exit, prefix);
  explanation_awaited_ = !exit.stopped();
}

void JobRunner::CheckEarlyEnds() {
  if (coordinator_ == nullptr || end_.has_value()) return;
  std::vector<std::pair<ProcessExit, absl::Time>> ends;
  ends.swap(early_ends_);
  for (auto& [exit, time] : ends) {
    if (coordinator_->latest_asked() <= time) {
      early_ends_.emplace_back(exit, time);
      continue;
    }
    // Otherwise the coordinator has released the worker.
    if (!NeedsWorkers(coordinator_->latest()) || servers_done_ > 0 ||
        end_.has_value()) {
      continue;
    }
    const bool worked = members_.HasWorked(exit);
    exit.reason =
        worked ? "exited with code 0 before the end of the job"
               : "exited with code 0 before it completed a step; a worker's "
                 "command must run until the job ends";
    if (worked && Restart(exit)) continue;
    Fail(exit, "");
    if (!worked) end_->exit_code = kExitUsage;
  }
}

void JobRunner::Fail(const ProcessExit& exit, const std::string& prefix) {
  const ProcessSpec& spec = members_.spec(exit.process);
  JobEnd end;
  end.status = exit.status.ok()
                   ? absl::AbortedError(absl::StrCat(
                         prefix, spec.name, " ", members_.Describe(exit),
                         " (log: ", spec.log_path, ")"))
                   : exit.status;
  end.exit_code = exit.exited_with(kExitUsage) ? kExitUsage : kExitFailed;
  end_ = std::move(end);
}

void JobRunner::Tick() {
  if (coordinator_ != nullptr) coordinator_->Poll();
  if (options_.on_tick) {
    options_.on_tick(coordinator_ == nullptr ? StatusReply()
                                             : coordinator_->latest());
  }
}

bool JobRunner::Finished() const {
  return job_done_ || processes_.running_count() == 0;
}

void JobRunner::EndProcesses() {
  if (!end_.has_value()) {
    messages_.ShowHeldBack();
    end_ = JobEnd();
  }
  stop_deadline_ =
      options_.clock() +
      (end_->status.ok() ? options_.settle_timeout : options_.failure_timeout);
  phase_ = Phase::kStopping;
  const bool drains =
      draining_ || (options_.server_0_decides && !end_->status.ok());
  if (!drains || members_.address().empty()) return;
  // For its checkpoint, server 0 needs the other processes.
  processes_.SignalAll(SIGCONT);
  members_.Terminate(members_.server_0());
  last_sign_ = options_.clock();
  phase_ = Phase::kDraining;
}

bool JobRunner::Drained() const {
  const absl::Time now = options_.clock();
  const bool may_be_silent = options_.sigterm_drain_timeout.has_value();
  return !processes_.running(members_.server_0()) || now >= drain_deadline_ ||
         (!may_be_silent && now - last_sign_ >= options_.silence_timeout);
}

void JobRunner::StopRemaining() {
  const bool failed = !draining_ && !end_->status.ok();
  if (failed && coordinator_ != nullptr) coordinator_->Poll();
  const bool no_workers_come =
      failed && coordinator_ != nullptr &&
      members_.Running(Role::kWorker) == 0 &&
      WaitsForWorkers(*coordinator_, /*asked_after=*/last_exit_);
  // Workers cannot finish without a server, whether the job was stopped or has
  // failed.
  const bool pointless = draining_ || no_workers_come ||
                         (failed && members_.Running(Role::kServer) == 0);
  if (pointless && !terminated_) stop_deadline_ = options_.clock();
  if (processes_.running_count() > 0 && options_.clock() >= stop_deadline_) {
    explanation_awaited_ = false;
    if (terminated_) {
      processes_.SignalAll(SIGKILL);
    } else {
      members_.TerminateAll();
    }
    terminated_ = true;
    stop_deadline_ =
        options_.clock() + (options_.sigterm_drain_timeout.has_value()
                                ? kClusterStopTimeout
                                : options_.stop_timeout);
  }
  if (processes_.running_count() == 0) phase_ = Phase::kEnded;
}

}  // namespace tributary
