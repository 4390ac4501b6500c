#include "deploy/launch/job/local_job.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/logger.h"
#include "common/text/counted.h"
#include "deploy/flags/exit_code.h"
#include "deploy/launch/job/supervisor.h"

namespace tributary {

namespace {

// Limits the warnings shown on the terminal; the logs contain all of them.
constexpr size_t kMostWarnings = 100;

// Replaces stop_timeout on a cluster, where signals may be late.
constexpr absl::Duration kClusterStopTimeout = absl::Seconds(5);

// True if the machine or a user ended the process by a signal, or if a worker's
// device has failed.
bool WasStopped(const ProcessExit& exit) {
  return exit.killed_by_signal() ||
         WEXITSTATUS(exit.wait_status) == kExitPreempted;
}

// True if the process itself is the reason of its end. A process that a
// different one has killed said nothing about it.
bool Crashed(const ProcessExit& exit) {
  if (!exit.killed_by_signal()) {
    return WEXITSTATUS(exit.wait_status) != kExitPreempted;
  }
  switch (WTERMSIG(exit.wait_status)) {
    case SIGKILL:
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
      return false;
    default:
      return true;
  }
}

// True if a worker cannot take part, for example because its machine lacks the
// data, and starting it again would not help.
bool CannotTakePart(const ProcessExit& exit) {
  return !exit.killed_by_signal() &&
         WEXITSTATUS(exit.wait_status) == kExitUsage;
}

}  // namespace

LocalJob::LocalJob(LocalJobOptions options, SignalQueue* signals)
    : options_(std::move(options)),
      signals_(signals),
      own_processes_(std::make_unique<Supervisor>()),
      supervisor_(*own_processes_),
      restarts_(options_.max_restarts) {}

LocalJob::LocalJob(LocalJobOptions options, SignalQueue* signals,
                   ProcessControl* processes)
    : options_(std::move(options)),
      signals_(signals),
      supervisor_(*processes),
      restarts_(options_.max_restarts) {}

LocalJobResult LocalJob::Run() {
  absl::optional<LocalJobResult> failure = StartAll();
  if (failure.has_value() && !result_.has_value()) result_ = failure;
  while (!result_.has_value() && !Ended()) {
    Pump(options_.tick);
    if (absl::Now() >= refusals_due_) ShowRefusals();
    if (options_.on_tick) options_.on_tick();
    CheckEarlyEnds();
  }
  if (!result_.has_value()) {
    ShowRefusals();
    result_ = LocalJobResult();
  }
  StopRemaining();
  return *result_;
}

std::vector<pid_t> LocalJob::pids() const {
  std::vector<pid_t> pids;
  for (const auto* processes : {&servers_, &workers_}) {
    for (const auto& [number, process] : *processes) {
      pids.push_back(supervisor_.pid(process));
    }
  }
  return pids;
}

absl::optional<LocalJobResult> LocalJob::StartProcess(Role role, int number,
                                                      const ProcessSpec& spec) {
  const absl::StatusOr<int> process = supervisor_.Start(spec);
  if (!process.ok()) {
    return LocalJobResult{process.status(), kExitFailed, /*signal=*/0};
  }
  places_.push_back({role, number});
  (role == Role::kServer ? servers_ : workers_)[number] = *process;
  return absl::nullopt;
}

bool LocalJob::StartAgain(const ProcessExit& exit) {
  const std::string name = supervisor_.spec(exit.process).name;
  restarts_.OnFailure(name, exit.wait_status);
  if (servers_done_ > 0 || !restarts_.Restart(name)) return false;
  const Place place = places_[exit.process];
  ProcessSpec spec = place.role == Role::kServer
                         ? options_.server(place.number, coordinator_)
                         : options_.worker(place.number, coordinator_);
  spec.append = true;
  Warn(place, "process_restarted",
       absl::StrCat(spec.name, " ", Describe(exit), "; restarting it (restart ",
                    restarts_.restarts(), " of ", restarts_.most_restarts(),
                    ")"));
  const absl::optional<LocalJobResult> failure =
      StartProcess(place.role, place.number, spec);
  if (failure.has_value()) result_ = failure;
  return true;
}

absl::optional<LocalJobResult> LocalJob::StartAll() {
  absl::optional<LocalJobResult> failure =
      StartProcess(Role::kServer, 0, options_.server(0, std::string()));
  if (failure.has_value()) return failure;

  const absl::Time deadline = absl::Now() + options_.start_timeout;
  absl::optional<std::string> coordinator;
  while (!(coordinator = supervisor_.ReadyText(servers_[0])).has_value()) {
    // A server that has finished does not accept workers any more.
    if (result_.has_value() || Ended()) return result_;
    if (absl::Now() > deadline) {
      return LocalJobResult{
          absl::DeadlineExceededError(
              absl::StrCat(supervisor_.spec(0).name, " did not start within ",
                           absl::FormatDuration(options_.start_timeout),
                           "; its log is ", supervisor_.spec(0).log_path)),
          kExitFailed, /*signal=*/0};
    }
    Pump(absl::Milliseconds(5));
  }
  for (int shard = 1; shard < options_.servers; ++shard) {
    failure = StartProcess(Role::kServer, shard,
                           options_.server(shard, *coordinator));
    if (failure.has_value()) return failure;
  }
  for (int rank = 0; rank < options_.workers; ++rank) {
    failure =
        StartProcess(Role::kWorker, rank, options_.worker(rank, *coordinator));
    if (failure.has_value()) return failure;
  }
  coordinator_ = *coordinator;
  if (options_.on_started) options_.on_started(*coordinator);
  return absl::nullopt;
}

void LocalJob::Pump(absl::Duration longest) {
  // Handles all pending signals: two SIGINTs may arrive between two calls.
  int signal = signals_->Wait(longest);
  while (signal != 0) {
    if (signal != SIGCHLD) HandleSignal(signal);
    signal = signals_->Wait(absl::ZeroDuration());
  }
  const int remote_signal = supervisor_.TakeSignal();
  if (remote_signal != 0) HandleSignal(remote_signal);
  // A worker that loses its server ends soon after it. Checking the servers
  // last, but handling their exits first, reports the cause instead of the
  // consequence.
  std::vector<ProcessExit> exits = supervisor_.Reap();
  const std::vector<ProcessExit> later = supervisor_.Reap();
  exits.insert(exits.end(), later.begin(), later.end());
  std::stable_sort(exits.begin(), exits.end(),
                   [this](const ProcessExit& a, const ProcessExit& b) {
                     return places_[a.process].role < places_[b.process].role;
                   });
  // Warnings of a process come before the message about its exit.
  PassWarnings();
  for (const ProcessExit& exit : exits) HandleExit(exit);
}

void LocalJob::PassWarnings() {
  for (size_t i = 0; i < places_.size(); ++i) {
    const ProcessSpec& spec = supervisor_.spec(static_cast<int>(i));
    for (const std::string& line :
         supervisor_.TakeWarnings(static_cast<int>(i))) {
      if (line == kStepNotice) restarts_.OnStepNotice(spec.name);
      if (line == kStoppingNotice) last_sign_ = absl::Now();
      if (line == kStepNotice || line == kStoppingNotice) continue;
      const bool failed =
          result_.has_value() && !result_->status.ok() && signal_ == 0;
      if (failed || warnings_.size() > kMostWarnings ||
          !warnings_.insert(line).second) {
        continue;
      }
      Message(warnings_.size() > kMostWarnings
                  ? absl::StrCat("warning: there are more than ", kMostWarnings,
                                 " different warnings; the others are in the "
                                 "logs only, as in ",
                                 spec.log_path)
                  : absl::StrCat("warning: ", spec.name, ": ", line));
    }
  }
}

void LocalJob::HandleSignal(int signal) {
  const bool killed_later =
      signal == SIGTERM && options_.sigterm_drain_timeout.has_value();
  const absl::Time deadline =
      absl::Now() +
      (killed_later ? *options_.sigterm_drain_timeout : options_.drain_timeout);
  if (signal_ != 0) {
    if (!killed_later && EndsImmediately(signal_, signal)) {
      supervisor_.SignalAll(SIGKILL);
    }
    drain_deadline_ = std::min(drain_deadline_, deadline);
    return;
  }
  ShowRefusals();
  signal_ = signal;
  drain_deadline_ = deadline;
  explanation_awaited_ = false;
  result_ = LocalJobResult{absl::CancelledError(absl::StrCat(
                               "stopped by SIG", sigabbrev_np(signal))),
                           ExitCodeOfStop(signal), signal};
}

void LocalJob::HandleExit(const ProcessExit& exit) {
  if (result_.has_value()) {  // Only the first result counts.
    if (!explanation_awaited_ || exit.process != servers_[0]) return;
    explanation_awaited_ = false;
    if (!exit.succeeded() && !exit.killed_by_signal()) Fail(exit, "");
    return;
  }
  if (places_[exit.process].role == Role::kServer) {
    HandleServerExit(exit);
  } else {
    HandleWorkerExit(exit);
  }
}

void LocalJob::HandleServerExit(const ProcessExit& exit) {
  if (exit.succeeded()) {
    ++servers_done_;
  } else if (!WasStopped(exit) || !StartAgain(exit)) {
    Fail(exit, "");
  }
}

void LocalJob::HandleWorkerExit(const ProcessExit& exit) {
  // The coordinator is ending the job without the worker.
  if (servers_done_ > 0) return;
  if (exit.succeeded()) {
    early_ends_.emplace_back(exit, absl::Now());
    return;
  }
  const bool stopped = WasStopped(exit);
  if (stopped && StartAgain(exit)) return;
  const bool refused = CannotTakePart(exit);
  const int left = Running(Role::kWorker);
  if ((stopped || refused) && left >= options_.fewest_workers) {
    ContinueWithout(exit, left);
    return;
  }
  // The error names this worker only.
  if (!refused) ShowRefusals();
  std::string prefix;
  if ((stopped || refused) && left > 0) {
    prefix = absl::StrCat(
        "only ", left, " of at least ",
        Counted(options_.fewest_workers, "worker is", "workers are"),
        " left: ");
  } else if (stopped) {
    prefix = "no worker is left: ";
  }
  Fail(exit, prefix);
  explanation_awaited_ = !stopped;
}

void LocalJob::CheckEarlyEnds() {
  if (!options_.needs_workers || result_.has_value()) return;
  std::vector<std::pair<ProcessExit, absl::Time>> ends;
  ends.swap(early_ends_);
  for (auto& [exit, time] : ends) {
    const absl::optional<bool> needed = options_.needs_workers(time);
    if (!needed.has_value()) early_ends_.emplace_back(exit, time);
    // In all other cases, the coordinator has released the worker.
    if (!needed.value_or(false) || servers_done_ > 0 || result_.has_value()) {
      continue;
    }
    const bool worked =
        restarts_.IsPastStart(supervisor_.spec(exit.process).name);
    exit.reason =
        worked ? "exited with code 0 before the end of the job"
               : "exited with code 0 before it completed a step; a worker's "
                 "command must run until the job ends";
    if (worked && StartAgain(exit)) continue;
    Fail(exit, "");
    if (!worked) result_->exit_code = kExitUsage;
  }
}

void LocalJob::ContinueWithout(const ProcessExit& exit, int left) {
  const Place& place = places_[exit.process];
  const std::string text =
      absl::StrCat(supervisor_.spec(exit.process).name, " ", Describe(exit),
                   "; ", Counted(left, "worker continues", "workers continue"));
  if (!CannotTakePart(exit)) {
    Warn(place, "process_ended", text);
    return;
  }
  Report(place, "process_ended", text);
  refusals_.push_back(text);
  refusals_due_ = absl::Now() + options_.settle_timeout;
}

void LocalJob::ShowRefusals() {
  for (const std::string& text : refusals_) {
    Message(absl::StrCat("warning: ", text));
  }
  refusals_.clear();
  refusals_due_ = absl::InfiniteFuture();
}

void LocalJob::Fail(const ProcessExit& exit, const std::string& prefix) {
  const ProcessSpec& spec = supervisor_.spec(exit.process);
  LocalJobResult result;
  result.status = absl::AbortedError(absl::StrCat(
      prefix, spec.name, " ", Describe(exit), " (log: ", spec.log_path, ")"));
  result.exit_code =
      !exit.killed_by_signal() && WEXITSTATUS(exit.wait_status) == kExitUsage
          ? kExitUsage
          : kExitFailed;
  result_ = result;
}

std::string LocalJob::Describe(const ProcessExit& exit) const {
  const ProcessSpec& spec = supervisor_.spec(exit.process);
  const int64_t begin = supervisor_.log_begin(exit.process);
  std::string text = exit.reason;
  if (text.empty() && !exit.killed_by_signal()) {
    const std::string error = LastErrorIn(spec.log_path, begin);
    if (!error.empty()) text = absl::StrCat("failed: ", error);
  }
  if (text.empty()) {
    text = DescribeExit(exit.wait_status);
    const std::string words =
        Crashed(exit) ? LastWordsIn(spec.log_path, begin) : std::string();
    if (!words.empty()) absl::StrAppend(&text, ": ", words);
  }
  if (restarts_.FailsAtStart(spec.name)) {
    absl::StrAppend(&text, ", ", RestartPolicy::kMostFailuresAtStart,
                    " times in a row before it completed a step");
  }
  return text;
}

void LocalJob::Message(const std::string& text) const {
  if (options_.on_message) options_.on_message(text);
}

void LocalJob::Warn(const Place& place, const std::string& kind,
                    const std::string& text) const {
  Message(absl::StrCat("warning: ", text));
  Report(place, kind, text);
}

void LocalJob::Report(const Place& place, const std::string& kind,
                      const std::string& text) const {
  if (!options_.on_event) return;
  JobEvent event;
  event.set_severity(JobEvent::WARNING);
  event.set_kind(kind);
  event.set_message(text);
  event.set_role(place.role == Role::kServer ? "server" : "worker");
  event.set_number(place.number);
  options_.on_event(event);
}

int LocalJob::Running(Role role) const {
  int count = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].role == role && supervisor_.running(static_cast<int>(i))) {
      ++count;
    }
  }
  return count;
}

bool LocalJob::Ended() const {
  return servers_done_ == options_.servers || supervisor_.running_count() == 0;
}

void LocalJob::Terminate(int process) {
  supervisor_.Signal(process, SIGTERM);
  supervisor_.Signal(process, SIGCONT);
}

void LocalJob::Drain() {
  if (signal_ == 0 || coordinator_.empty()) return;
  const int server = servers_[0];
  // For its checkpoint, server 0 needs the other processes.
  supervisor_.SignalAll(SIGCONT);
  Terminate(server);
  last_sign_ = absl::Now();
  const bool may_be_silent = options_.sigterm_drain_timeout.has_value();
  while (
      supervisor_.running(server) && absl::Now() < drain_deadline_ &&
      (may_be_silent || absl::Now() - last_sign_ < options_.silence_timeout)) {
    Pump(absl::Milliseconds(100));
    if (options_.on_tick) options_.on_tick();
  }
}

void LocalJob::StopRemaining() {
  Drain();
  absl::Time deadline = absl::Now() + options_.settle_timeout;
  bool terminated = false;
  while (supervisor_.running_count() > 0) {
    // Workers cannot finish without a server, whether the job was stopped or
    // has failed.
    const bool pointless =
        signal_ != 0 || (!result_->status.ok() && Running(Role::kServer) == 0);
    if (pointless && !terminated) deadline = absl::Now();
    if (absl::Now() >= deadline) {
      explanation_awaited_ = false;
      for (int i = 0; i < supervisor_.size(); ++i) {
        if (terminated) {
          supervisor_.Signal(i, SIGKILL);
        } else {
          Terminate(i);
        }
      }
      terminated = true;
      deadline = absl::Now() + (options_.sigterm_drain_timeout.has_value()
                                    ? kClusterStopTimeout
                                    : options_.stop_timeout);
    }
    Pump(std::min(deadline - absl::Now(), absl::Milliseconds(100)));
  }
}

}  // namespace tributary
