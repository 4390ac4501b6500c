#include "server/coordinator/attempt_phase.h"

#include "absl/strings/str_cat.h"

namespace tributary {

absl::Status JoinAgain(const absl::Status& reason) {
  return absl::AbortedError(absl::StrCat(reason.message(), "; join again"));
}

absl::Status JobFailed(const absl::Status& reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("the job failed: ", reason.message()));
}

void AttemptPhase::Finish() {
  if (under_way()) phase_ = Phase::kFinishing;
}

void AttemptPhase::Drain() {
  if (under_way()) phase_ = Phase::kDrained;
}

bool AttemptPhase::Fail(const absl::Status& reason, int exit_code) {
  if (phase_ == Phase::kFailed || concluded()) return false;
  phase_ = Phase::kFailed;
  failure_ = reason;
  failure_exit_code_ = exit_code;
  return true;
}

bool AttemptPhase::RollBack(AttemptEnding ending, const absl::Status& reason,
                            bool workers_left) {
  if (this->ending(workers_left) != AttemptEnding::kNone) return false;
  Recover(ending, reason);
  return true;
}

bool AttemptPhase::GiveUp(const absl::Status& reason) {
  if (phase_ == Phase::kFailed || phase_ == Phase::kRecovering || concluded()) {
    return false;
  }
  Recover(AttemptEnding::kFailed, reason);
  return true;
}

void AttemptPhase::Recover(AttemptEnding ending, const absl::Status& reason) {
  phase_ = Phase::kRecovering;
  recovery_ = ending;
  failure_ = reason;
}

AttemptEnding AttemptPhase::ending(bool workers_left) const {
  switch (phase_) {
    case Phase::kFailed:
      return AttemptEnding::kFailed;
    case Phase::kRecovering:
      return recovery_;
    case Phase::kDrained:
      return AttemptEnding::kDrained;
    case Phase::kFinishing:
      return workers_left ? AttemptEnding::kNone : AttemptEnding::kTrained;
    case Phase::kDone:
      return AttemptEnding::kTrained;
    case Phase::kWaiting:
    case Phase::kTraining:
      break;
  }
  return AttemptEnding::kNone;
}

absl::Status AttemptPhase::CheckWorkerMayJoin() const {
  switch (phase_) {
    case Phase::kFailed:
      return JobFailed(failure_);
    case Phase::kFinishing:
    case Phase::kDone:
      return absl::OutOfRangeError("the job is done; nothing to join");
    case Phase::kDrained:
      return absl::FailedPreconditionError("the job was stopped by request");
    case Phase::kRecovering:
      return JoinAgain(failure_);
    case Phase::kWaiting:
    case Phase::kTraining:
      break;
  }
  return absl::OkStatus();
}

absl::Status AttemptPhase::CheckServerMayEnlist() const {
  if (phase_ == Phase::kFailed) return JobFailed(failure_);
  if (phase_ == Phase::kRecovering) return JoinAgain(failure_);
  return absl::OkStatus();
}

}  // namespace tributary
