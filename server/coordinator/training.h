// The steps of an attempt, and what follows from them.
#ifndef TRIBUTARY_SERVER_COORDINATOR_TRAINING_H_
#define TRIBUTARY_SERVER_COORDINATOR_TRAINING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameters/arena_layout.h"
#include "proto/checkpoint.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/beginning.h"
#include "server/coordinator/work_assignment.h"
#include "server/membership/membership.h"
#include "server/progress/job_progress.h"

namespace tributary {

// Completes the steps, evaluations and checkpoints of an attempt, from what
// servers and workers report about them, and ends training. See Attempt for
// thread safety and errors.
class Training {
 public:
  // Receives the lines of metrics.jsonl in order. Must not block.
  using MetricsSink = std::function<void(const std::string& line)>;

  // `attempt` and `assignment` must outlive this object.
  Training(Attempt* attempt, WorkAssignment* assignment, MetricsSink metrics)
      : attempt_(*attempt),
        assignment_(*assignment),
        metrics_(std::move(metrics)) {}

  // Sets the version and the state at which the attempt begins, and the model
  // and the data that the workers agreed on. `layout` is the layout of this
  // model, and `ready` is the report of a worker that has this model and data.
  void Prepare(ArenaLayout layout, const Ready& ready,
               const Beginning& beginning);
  // Begins training. Call it after Prepare.
  void Begin();

  // ---- Steps and evaluations.

  absl::Status OnSums(int shard, const StepSums& sums);
  absl::Status OnWorkerSums(int64_t incarnation, const StepSums& sums);
  // A worker that the caller must expel (see AdmissionControl::Expel), because
  // its loss was not finite although the gradient was.
  struct Offender {
    int64_t incarnation = 0;
    absl::Status reason;
  };
  // Returns the worker that OnSums or OnWorkerSums has found, once.
  std::optional<Offender> TakeOffender() {
    return std::exchange(offender_, std::nullopt);
  }
  absl::Status OnEvaluation(const Member& member,
                            const EvaluationReport& report);
  // Handles a heartbeat of a server. `version` is the newest version that all
  // chunks of the server have. If training waits only for this version, ends
  // training.
  void OnServerVersion(int shard, int64_t version);
  // Ends the job at the version of the request as soon as the servers have
  // reported it. Returns Aborted if they have a later one, and InvalidArgument
  // in exchanges in which a worker cannot end the job.
  absl::Status OnEndJob(const EndJob& request);

  // ---- Checkpoints.

  absl::Status OnSnapshot(int shard, const SnapshotReport& report);
  void OnSaved(int64_t incarnation, const Saved& saved);
  void OnCheckpointFolder(const absl::StatusOr<std::string>& folder);
  void OnCheckpointCommitted(const absl::Status& status);
  // Executes the checkpoint actions that are due, and then whatever has waited
  // for the checkpoint: further steps, the end of training, a requested stop of
  // the job, or the departure of a server. No effect unless training is under
  // way.
  void RunCheckpoints();
  // If training is under way and no worker is synced (has all weights), takes
  // the checkpoint that Drain or OnLeaving has requested, at the current
  // version.
  void RunCheckpointsWhileIdle();

  // ---- The end.

  // Stops the job before its end. During training, first takes one more
  // checkpoint if checkpoints are enabled. No effect after training.
  void Drain();
  // Ends the attempt because the server was asked to stop. During training,
  // first takes a checkpoint if checkpoints are enabled. No effect after
  // training.
  void OnLeaving(int shard);
  // Implements Coordinator::FinalManifest.
  CheckpointManifest FinalManifest() const;

 private:
  struct EarlyEvaluation {
    int64_t incarnation = 0;
    EvaluationReport report;
  };

  // Completes round `step` (a round is what servers count as one step) after
  // all servers (in an all-reduce, one worker) have reported their sums. `norm`
  // is the norm of the round's mean gradient.
  void OnRound(int64_t step, const GradientNorm& norm);
  // Fails the job or, with on_nonfinite: SKIP, adds a line about the skipped
  // step to metrics.jsonl.
  void OnNonfinite(const JobProgress::NonfiniteGradient& gradient);
  absl::Status AddEvaluation(const EvaluationReport& report);
  // Passes `order`, which orders the servers to write their parts of a
  // checkpoint, to RunMode::OrderSnapshot.
  void OrderSnapshot(const ServerOrder& order);
  void FinishIfDue();
  // Ends the job at the version of OnEndJob if it is complete.
  void EndIfDue();
  void LetServerLeave();
  void FlushMetrics();

  Attempt& attempt_;
  WorkAssignment& assignment_;
  const MetricsSink metrics_;

  std::optional<Offender> offender_;
  // By piece: what workers have reported of the next version to be evaluated
  // while sums of the steps before it are under way. It counts when all are
  // there: the state that is saved with a version must not know later
  // evaluations.
  std::map<int64_t, EarlyEvaluation> early_evaluations_;
  // The version at which a worker ends the job; -1 if none does.
  int64_t end_at_ = -1;
  std::optional<int> leaving_;  // Shard of the server that was asked to stop.
  // Number of failed checkpoints that were reported as events.
  int64_t checkpoint_failures_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_TRAINING_H_
