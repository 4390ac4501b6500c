// The phase of an attempt, and how the attempt ended.
#ifndef TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_PHASE_H_
#define TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_PHASE_H_

#include "absl/status/status.h"

namespace tributary {

enum class AttemptEnding {
  kNone,      // Not yet.
  kTrained,   // Everything is computed, and every worker gone.
  kDrained,   // Drain is done.
  kGoesBack,  // A server was lost: the next attempt is to begin.
  kDamaged,  // The same, but not from the checkpoint of AttemptOptions::resume.
  kFailed,   // See AttemptPhase::failure.
};

// For peers whose call ends because the attempt does: they should join again.
absl::Status JoinAgain(const absl::Status& reason);
// For peers of a job that has failed: it is of no use to join again.
absl::Status JobFailed(const absl::Status& reason);

// Transitions, of which those that do not apply do nothing:
//
//   kWaiting -> kTraining -> kFinishing -> kDone
//   kWaiting -> kFinishing: all was computed before this attempt
//   kWaiting, kTraining -> kDrained
//   all but kDone, kDrained -> kFailed
//   all that have no ending yet -> kRecovering
//
// Knows nothing of peers: the caller tells them of a transition. Not
// thread-safe.
class AttemptPhase {
 public:
  enum class Phase {
    kWaiting,     // For servers and workers.
    kTraining,    // Evaluations included.
    kFinishing,   // All is computed; workers leave.
    kDone,        // Workers have left.
    kRecovering,  // The attempt is over, the job is not.
    kDrained,     // Stopped by request.
    kFailed,
  };

  Phase phase() const { return phase_; }
  bool waiting() const { return phase_ == Phase::kWaiting; }
  bool training() const { return phase_ == Phase::kTraining; }
  bool finishing() const { return phase_ == Phase::kFinishing; }
  bool drained() const { return phase_ == Phase::kDrained; }
  // Work may still be lost.
  bool under_way() const { return waiting() || training(); }
  // All is computed and told, or the job was stopped.
  bool concluded() const { return phase_ == Phase::kDone || drained(); }

  void Train() { Change(Phase::kWaiting, Phase::kTraining); }
  void Finish();
  void Conclude() { Change(Phase::kFinishing, Phase::kDone); }
  void Drain();
  // False: the attempt is over in a way that the failure does not change.
  bool Fail(const absl::Status& reason, int exit_code);
  // Ends the attempt with `ending`: peers are to join the next one. False: it
  // has ended already. `workers_left`: see ending.
  bool GoBack(AttemptEnding ending, const absl::Status& reason,
              bool workers_left);
  // Another coordinator has the job now: this one has failed, but peers join
  // again. False: the attempt has ended already.
  bool GiveUp(const absl::Status& reason);

  // `workers_left`: some worker has not said farewell.
  AttemptEnding ending(bool workers_left) const;
  // OK while the job has not failed; why the attempt has ended.
  const absl::Status& failure() const { return failure_; }
  int failure_exit_code() const { return failure_exit_code_; }

  // What a worker that joins now is told. OK: it may.
  absl::Status CheckWorkerMayJoin() const;
  // The same for a server. One that comes too late for an attempt is not told
  // that the job is done.
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
