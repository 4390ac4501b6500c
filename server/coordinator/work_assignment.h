// Which worker computes what.
#ifndef TRIBUTARY_SERVER_COORDINATOR_WORK_ASSIGNMENT_H_
#define TRIBUTARY_SERVER_COORDINATOR_WORK_ASSIGNMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/attempt.h"
#include "server/membership/member_secrets.h"
#include "server/membership/membership.h"

namespace tributary {

// Assigns the micro-batches of the steps and the pieces of the evaluations to
// the workers of an attempt, and tells the workers when they may continue after
// an evaluation. See Attempt for thread safety.
class WorkAssignment {
 public:
  // `attempt` must outlive this object.
  explicit WorkAssignment(Attempt* attempt);

  // Continues after the evaluation of `version`, the newest evaluated version
  // when the attempt begins.
  // `rate_factor` is that of Evaluated.
  void Begin(int64_t version, std::optional<double> rate_factor) {
    announced_version_ = version;
    announced_factor_ = rate_factor;
  }

  // In a pipeline, decides again which worker computes which stages, after a
  // worker was opened or lost; see RunMode::OrderStages. During training, calls
  // Assign, which includes this.
  //
  // First chooses the stages, once `awaited` workers are opened, or the start
  // timeout has passed since the first one was opened; call it several times a
  // second until then. If this fails, fails the job.
  void OrderStages(int awaited);
  // False if the job has a pipeline whose stages are not chosen yet.
  bool stages_chosen() const { return stages_chosen_; }
  // Returns true if `awaited` workers are synced or, in a pipeline, all that
  // are opened, if these are fewer: the choice of stages has waited for others.
  bool EnoughSynced(int awaited) const;
  // Assigns all micro-batches of a step, and all pieces of each evaluation (the
  // parts into which the held-out data are divided), to the synced workers
  // (those that have all weights), unless the run mode keeps the existing
  // assignment (see RunMode::Assign). Each assignment sends an order to every
  // worker. With many workers, this method therefore assigns work at most once
  // in kAssignInterval, for example when many workers are lost at the same
  // time, and leaves other assignments to the next AssignIfDue.
  void Assign();
  // Assigns the work if Assign has left the assignment to this method. Call
  // it at least every kAssignInterval.
  void AssignIfDue();
  static constexpr absl::Duration kAssignInterval = absl::Milliseconds(100);
  absl::Status OnStepRequest(const Member& member);
  // Leases steps to the workers that have requested them, during training; see
  // RunMode::GrantSteps.
  void GrantSteps();
  // Tells workers that the evaluation of the newest evaluated version is
  // complete, so that they compute the steps after that version. Does nothing
  // while servers still have to copy the version because it is the best so far,
  // or if the job stops early.
  void AnnounceEvaluated();

  // Tells all workers that the job has finished, and closes the links of those
  // that have not received Open. If some have untrained tensors, first tells
  // only one of them, which sends these.
  void TellFinished();
  // Adds a part of the untrained tensors. When they are complete, tells the
  // other workers that the job has finished. Returns FailedPrecondition if the
  // worker was not asked, and the errors of UntrainedTensors::Add.
  absl::Status OnUntrained(int64_t incarnation,
                           const UntrainedTensorPart& part);
  // Asks another worker for the untrained tensors if this one was asked.
  void OnWorkerGone(int64_t incarnation);

 private:
  // Returns the first step that must not be leased yet; used only in mode
  // `asynchronous` (see RunMode::GrantSteps). The limit makes all workers wait
  // at two kinds of versions: at a version to be evaluated, until the
  // evaluation is complete; and at the version of a checkpoint, until all
  // servers have copied it.
  int64_t StepLimit() const;
  // Implements Assign, without delay.
  void AssignNow();
  // Sets stages_chosen_ if the stages can be chosen; see OrderStages.
  void ChooseStages(int awaited);
  // Completes the Deals with what the mode does not know, and sends the orders.
  void Send(std::map<int64_t, std::vector<CoordinatorOrder>> orders);

  Attempt& attempt_;
  const MemberSecrets secrets_;
  // The newest version for which workers were told that its evaluation is
  // complete.
  int64_t announced_version_ = 0;
  std::optional<double> announced_factor_;  // Of the steps from it on.
  // Time of the last call of AssignNow.
  absl::Time assigned_ = absl::InfinitePast();
  bool stages_chosen_;
  // When the first worker was opened that still is, before stages are chosen.
  absl::Time first_opened_ = absl::InfiniteFuture();
  // The worker that was asked for its untrained tensors; 0 if none was.
  int64_t untrained_from_ = 0;
  // True if Assign has left an assignment to AssignIfDue.
  bool assignment_due_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_WORK_ASSIGNMENT_H_
