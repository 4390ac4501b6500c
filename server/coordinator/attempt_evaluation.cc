// What an Attempt does when an evaluation is complete: keeps the best version,
// stops the job early, and lets the workers continue.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "server/coordinator/attempt.h"

namespace tributary {

absl::Status Attempt::OnEvaluation(const Member& member,
                                   const EvaluationReport& report) {
  if (!progress_.has_value()) {
    return absl::FailedPreconditionError("evaluation before the start");
  }
  if (!member.WasAssignedPiece(report.piece())) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation piece ", report.piece(),
                     " was not assigned to the worker, which has pieces [",
                     member.pieces.begin, ", ", member.pieces.end, ")"));
  }
  // Weights that have diverged have such a loss, so it is no violation.
  if (!std::isfinite(report.loss_sum())) {
    Note(JobEvent::WARNING, "nonfinite_evaluation",
         absl::StrCat("the evaluation loss of ", member.Name(), ", piece ",
                      report.piece(), ", is ", report.loss_sum()),
         "worker", member.rank);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const bool complete,
                             progress_->AddEvaluation(report, clock_()));
  if (!complete) return absl::OkStatus();
  CheckpointSchedule* const schedule = checkpoints_->schedule();
  if (stops_early()) schedule->EndAt(report.version());
  const std::optional<int64_t> best = progress_->TakeBest();
  if (best.has_value() && options_.checkpoints != nullptr) {
    schedule->TakeBest(*best);
  }
  FlushMetrics();
  RunCheckpoints();
  return absl::OkStatus();
}

bool Attempt::stops_early() const { return !progress_->stop_reason().empty(); }

void Attempt::AnnounceEvaluated() {
  // After an early stop, workers receive Finished instead.
  if (announced_version_ == progress_->evaluated_version() || stops_early() ||
      !checkpoints_->schedule()->best_copied()) {
    return;
  }
  announced_version_ = progress_->evaluated_version();
  CoordinatorOrder order;
  order.mutable_evaluated()->set_version(announced_version_);
  for (const auto& [incarnation, member] : membership_.members()) {
    if (member.opened) member.link->Send(order);
  }
}

int64_t Attempt::StepLimit() const {
  int64_t limit = progress_->NextEvaluation();
  // No step after this version before Evaluated.
  if (announced_version_ < progress_->evaluated_version()) {
    limit = std::min(limit, progress_->evaluated_version());
  }
  const CheckpointSchedule& schedule = checkpoints_->schedule();
  if (schedule.version() < 0 || schedule.taken()) return limit;
  return std::min(limit, schedule.version());
}

void Attempt::OrderSnapshot(const ServerOrder& order) {
  const int64_t version = order.snapshot().version();
  // In an all-reduce, the members send these versions without a request.
  const bool kept = version == progress_->final_version() ||
                    (KeepsEvaluatedVersions(options_.job) &&
                     progress_->EvaluationDue(version));
  mode_->OrderSnapshot(order, kept);
}

}  // namespace tributary
