// The phase of an attempt, and how the attempt ended.
#ifndef TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_PHASE_H_
#define TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_PHASE_H_

#include "absl/status/status.h"

namespace tributary {

enum class AttemptEnding {
  kNone,     // The attempt has not ended.
  kTrained,  // Training is complete and all workers have left.
  kDrained,  // The job was stopped by request.
  // Ended early, for example by the loss of a server; a new attempt follows.
  kRolledBack,
  // Ended early because the checkpoint in AttemptOptions::resume is damaged; a
  // new attempt follows.
  kDamaged,
  // The job has failed, or a newer coordinator has taken it over; see
  // AttemptPhase::failure.
  kFailed,
};

// Returns an Aborted status, with the message of `reason`, for peers whose call
// ends because the attempt ends. Peers that receive the status join again.
absl::Status JoinAgain(const absl::Status& reason);
// Returns a FailedPrecondition status, with the message of `reason`, for peers
// of a failed job. Peers that receive the status do not join again.
absl::Status JobFailed(const absl::Status& reason);

// The state machine of an attempt's phases, with these transitions:
//
//   kWaiting -> kTraining -> kFinishing -> kDone
//   kWaiting -> kFinishing: the job was complete before this attempt
//   kWaiting, kTraining -> kDrained
//   any except kDone, kDrained -> kFailed
//   kWaiting, kTraining, kFinishing -> kRecovering
//
// A transition from any other phase has no effect. Does not notify peers; the
// caller does. Not thread-safe.
class AttemptPhase {
 public:
  enum class Phase {
    kWaiting,     // Waiting for servers and workers.
    kTraining,    // Training, including evaluations.
    kFinishing,   // Training is complete; workers leave.
    kDone,        // Workers have left, and Conclude was called.
    kRecovering,  // The attempt is over; the job is not.
    kDrained,     // The job was stopped by request.
    kFailed,
  };

  Phase phase() const { return phase_; }
  bool waiting() const { return phase_ == Phase::kWaiting; }
  bool training() const { return phase_ == Phase::kTraining; }
  bool finishing() const { return phase_ == Phase::kFinishing; }
  bool drained() const { return phase_ == Phase::kDrained; }
  // Returns true until training is complete or the attempt has ended.
  bool under_way() const { return waiting() || training(); }
  // Returns true in phases kDone and kDrained, in which the job cannot fail.
  bool concluded() const { return phase_ == Phase::kDone || drained(); }

  void Train() { Change(Phase::kWaiting, Phase::kTraining); }
  void Finish();
  void Conclude() { Change(Phase::kFinishing, Phase::kDone); }
  void Drain();
  // Fails the job. Returns false, without effect, if the job has already
  // failed, was stopped or is done.
  bool Fail(const absl::Status& reason, int exit_code);
  // Ends the attempt with `ending`, after which peers join the next attempt.
  // Returns false, without effect, if ending(workers_left) is not kNone.
  bool RollBack(AttemptEnding ending, const absl::Status& reason,
                bool workers_left);
  // Ends the attempt as kFailed because a newer coordinator has taken over the
  // job, but lets peers join again. Returns false, without effect, in phases
  // kDone, kRecovering, kDrained and kFailed.
  bool GiveUp(const absl::Status& reason);

  // Returns how the attempt has ended, or kNone if it has not. `workers_left`
  // is true if any worker is still a member.
  AttemptEnding ending(bool workers_left) const;
  // Returns why the attempt has ended. Returns OK unless it has ended as
  // kFailed, kRolledBack or kDamaged.
  const absl::Status& failure() const { return failure_; }
  int failure_exit_code() const { return failure_exit_code_; }

  // Returns OK if a worker may join in this phase, otherwise the error with
  // which the worker's connection ends: OutOfRange if training is complete,
  // FailedPrecondition if the job has failed or was stopped, and Aborted if the
  // worker must join the next attempt.
  absl::Status CheckWorkerMayJoin() const;
  // Returns OK if a server may enlist in this phase, otherwise the error with
  // which the server's connection ends: FailedPrecondition if the job has
  // failed, and Aborted if the server must join the next attempt. A server may
  // enlist even after training, so that the coordinator can tell it the job's
  // outcome.
  absl::Status CheckServerMayEnlist() const;

 private:
  void Change(Phase from, Phase to) {
    if (phase_ == from) phase_ = to;
  }
  void Recover(AttemptEnding ending, const absl::Status& reason);

  Phase phase_ = Phase::kWaiting;
  absl::Status failure_;
  int failure_exit_code_ = 0;
  // The result of ending() in phase kRecovering: kRolledBack or kDamaged.
  AttemptEnding recovery_ = AttemptEnding::kNone;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_PHASE_H_
