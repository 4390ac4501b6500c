// The phase of an attempt, and how the attempt ended.
#ifndef TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_PHASE_H_
#define TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_PHASE_H_

#include "absl/status/status.h"

namespace tributary {

enum class AttemptEnding {
  kNone,      // Not yet.
  kTrained,   // Training is complete and all workers have left.
  kDrained,   // Stopped by Drain.
  kGoesBack,  // A server was lost; another attempt follows.
  kDamaged,   // Like kGoesBack, and AttemptOptions::resume is damaged.
  kFailed,    // See AttemptPhase::failure.
};

// The status for peers whose call ends because the attempt ends: they should
// join again.
absl::Status JoinAgain(const absl::Status& reason);
// The status for peers of a failed job: they should not join again.
absl::Status JobFailed(const absl::Status& reason);

// The state machine of an attempt's phases. A transition that does not apply
// has no effect:
//
//   kWaiting -> kTraining -> kFinishing -> kDone
//   kWaiting -> kFinishing: the job was complete before this attempt
//   kWaiting, kTraining -> kDrained
//   any except kDone, kDrained -> kFailed
//   any without an ending -> kRecovering
//
// Does not notify peers; the caller does. Not thread-safe.
class AttemptPhase {
 public:
  enum class Phase {
    kWaiting,     // Waiting for servers and workers.
    kTraining,    // Includes evaluations.
    kFinishing,   // Training is complete; workers leave.
    kDone,        // Workers have left.
    kRecovering,  // The attempt is over; the job is not.
    kDrained,     // Stopped by request.
    kFailed,
  };

  Phase phase() const { return phase_; }
  bool waiting() const { return phase_ == Phase::kWaiting; }
  bool training() const { return phase_ == Phase::kTraining; }
  bool finishing() const { return phase_ == Phase::kFinishing; }
  bool drained() const { return phase_ == Phase::kDrained; }
  // True while completed work may still be lost.
  bool under_way() const { return waiting() || training(); }
  // True if training is complete and workers have left, or the job was stopped.
  bool concluded() const { return phase_ == Phase::kDone || drained(); }

  void Train() { Change(Phase::kWaiting, Phase::kTraining); }
  void Finish();
  void Conclude() { Change(Phase::kFinishing, Phase::kDone); }
  void Drain();
  // Returns false if the attempt has already ended in a way that overrides the
  // failure.
  bool Fail(const absl::Status& reason, int exit_code);
  // Ends the attempt with `ending`: peers are to join the next one. Returns
  // false if it has already ended. `workers_left`: see ending().
  bool GoBack(AttemptEnding ending, const absl::Status& reason,
              bool workers_left);
  // Ends the attempt because another coordinator runs the job: this one has
  // failed, but peers join again. Returns false if the attempt has already
  // ended.
  bool GiveUp(const absl::Status& reason);

  // `workers_left`: some worker has not sent its Farewell.
  AttemptEnding ending(bool workers_left) const;
  // Why the attempt has ended. OK while the job has not failed.
  const absl::Status& failure() const { return failure_; }
  int failure_exit_code() const { return failure_exit_code_; }

  // Returns the status for a worker that joins in this phase. OK: it may join.
  absl::Status CheckWorkerMayJoin() const;
  // Like CheckWorkerMayJoin, for a server. OK even after training: a server
  // that restarts then is still told the job's outcome by the coordinator.
  absl::Status CheckServerMayEnlist() const;

 private:
  void Change(Phase from, Phase to) {
    if (phase_ == from) phase_ = to;
  }
  void Recover(AttemptEnding ending, const absl::Status& reason);

  Phase phase_ = Phase::kWaiting;
  absl::Status failure_;
  int failure_exit_code_ = 0;
  AttemptEnding recovery_ = AttemptEnding::kNone;  // In kRecovering.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_PHASE_H_
