#include "server/coordinator/attempt.h"

#include <algorithm>
#include <utility>

namespace tributary {
namespace {

// The longest lease while a job is being stopped. Processes send a heartbeat
// every second. With a longer lease, a worker that is suspended would hold up
// the end of the job for so long that the sender of SIGTERM ends it by SIGKILL.
constexpr absl::Duration kDrainLease = absl::Seconds(2);

// Bounds the wait for the servers' copies of the weights when an attempt ends,
// which take milliseconds unless a server or its disk has failed, too.
constexpr absl::Duration kSaveTimeout = absl::Seconds(10);

}  // namespace

Attempt::Attempt(const AttemptOptions& attempt_options, Clock attempt_clock)
    : options(attempt_options),
      clock(std::move(attempt_clock)),
      membership(static_cast<int>(options.job.batch().micro_batches()),
                 options.lease),
      servers(options.servers),
      mode(CreateRunMode(options.job, &membership, &servers)) {}

absl::Duration Attempt::lease() const {
  return draining ? std::min(options.lease, kDrainLease) : options.lease;
}

bool Attempt::complete() const {
  return options.resume.has_value() && options.resume->manifest.complete();
}

void Attempt::Note(JobEvent::Severity severity, const std::string& kind,
                   const std::string& message, const std::string& role,
                   int number) {
  if (!options.on_event) return;
  JobEvent event;
  event.set_step(progress.has_value() ? progress->completed_steps() : 0);
  event.set_attempt(options.attempt);
  event.set_severity(severity);
  event.set_kind(kind);
  event.set_message(message);
  event.set_role(role);
  event.set_number(number);
  options.on_event(event);
}

void Attempt::Fail(const absl::Status& reason, int exit_code) {
  if (!phase.Fail(reason, exit_code)) return;
  Note(JobEvent::ERROR, "failed", std::string(reason.message()));
  const absl::Status told = JobFailed(reason);
  membership.Close(told);
  servers.Close(told);
}

void Attempt::FailAsReported(const Failure& failure,
                             const std::string& reason) {
  EndWithCheckpoint(failure.exit_code() == 2
                        ? absl::InvalidArgumentError(reason)
                        : absl::AbortedError(reason),
                    failure.exit_code());
}

void Attempt::RollBack(AttemptEnding ending, const absl::Status& reason) {
  if (phase.RollBack(ending, reason,
                     /*workers_left=*/membership.count() > 0)) {
    Note(JobEvent::WARNING, "rolled_back", std::string(reason.message()));
    SendAway(reason);
  }
}

void Attempt::EndWithCheckpoint(const absl::Status& reason,
                                std::optional<int> exit_code) {
  if (saved_ending.has_value()) return;
  saved_ending = {reason, exit_code, now()};
  if (phase.training()) {
    membership.Close(CheckWorkerMayJoin());
    checkpoints->schedule()->Drain();
  }
  EndIfSaved();
}

void Attempt::EndIfSaved(bool server_lost) {
  if (!saved_ending.has_value() || ending() != AttemptEnding::kNone) return;
  if (phase.training() && !server_lost) {
    const CheckpointSchedule& schedule = *checkpoints->schedule();
    const bool waits = schedule.version() < 0 || !schedule.taken();
    if (!schedule.over() &&
        !(waits && now() - saved_ending->since > kSaveTimeout)) {
      return;
    }
  }
  if (saved_ending->exit_code.has_value()) {
    Fail(saved_ending->reason, *saved_ending->exit_code);
  } else {
    RollBack(AttemptEnding::kRolledBack, saved_ending->reason);
  }
}

absl::Status Attempt::CheckWorkerMayJoin() const {
  if (!saved_ending.has_value()) return phase.CheckWorkerMayJoin();
  return saved_ending->exit_code.has_value() ? JobFailed(saved_ending->reason)
                                             : JoinAgain(saved_ending->reason);
}

void Attempt::GiveUp(const absl::Status& reason) {
  if (phase.GiveUp(reason)) SendAway(reason);
}

void Attempt::SendAway(const absl::Status& reason) {
  workers_at_ending = membership.count();
  membership.Close(JoinAgain(reason));
  servers.Close(JoinAgain(reason));
}

void Attempt::Conclude() {
  // A failed job stays failed, so that workers that join late are told.
  phase.Conclude();
  if (phase.drained()) {
    CoordinatorOrder stopped;
    stopped.mutable_finished()->set_stopped(true);
    for (const auto& [incarnation, member] : membership.members()) {
      member.link->Send(stopped);
    }
    membership.Close(
        absl::FailedPreconditionError("the job was stopped by request"));
  }
  ServerOrder order;
  order.mutable_finish()->set_stopped(phase.drained());
  servers.Send(order);
}

}  // namespace tributary
