#include "server/coordinator/training.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/rounds.h"
#include "common/parameters/trust_ratios.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// Returns the name of the parameter, or of the row and its table.
std::string ParameterOf(const JobProgress::NonfiniteGradient& gradient,
                        const Attempt& attempt) {
  if (!gradient.place.has_value()) {
    return absl::StrCat(
        "row ", gradient.row->key(), " of table ",
        attempt.options.job.sparse().table(gradient.row->table()).name());
  }
  const ArenaLayout& layout = *attempt.layout;
  const int64_t element =
      layout.ChunkBegin(gradient.place->chunk()) + gradient.place->element();
  return layout.ParameterAt(element).name;
}

// Returns the worker that sent the gradient. Returns null if the worker has
// left, or if only the sum over all workers is not finite.
const Member* ContributorOf(const JobProgress::NonfiniteGradient& gradient,
                            const Membership& membership) {
  const auto found = membership.members().find(gradient.contributor());
  return found == membership.members().end() ? nullptr : &found->second;
}

// Returns the error that ends a job with on_nonfinite: STOP. Names the worker
// if its contribution was not finite and it is still a member.
absl::Status NonfiniteError(const JobProgress::NonfiniteGradient& gradient,
                            const Attempt& attempt) {
  const Member* const member = ContributorOf(gradient, attempt.membership);
  const std::string whose = gradient.contributor() == 0
                                ? "the sum over all workers"
                            : member == nullptr ? "a worker that has left"
                                                : member->Name();
  return absl::AbortedError(absl::StrCat(
      "step ", gradient.step + 1, ": the gradient of ",
      ParameterOf(gradient, attempt), " is not finite, from ", whose,
      ": lower the learning rate, set clip_norm, or look at the data; "
      "on_nonfinite: SKIP leaves such steps out"));
}

// Returns the line of metrics.jsonl for a step that was skipped because of
// on_nonfinite: SKIP.
std::string SkippedStepLine(const JobProgress::NonfiniteGradient& gradient,
                            const Attempt& attempt) {
  nlohmann::ordered_json line = {{"step", gradient.step + 1},
                                 {"skipped", "gradient is not finite"},
                                 {"parameter", ParameterOf(gradient, attempt)}};
  const Member* const member = ContributorOf(gradient, attempt.membership);
  if (member != nullptr) line["worker"] = member->rank;
  return line.dump();
}

// Returns nullopt unless the servers need trust ratios. The members of an
// all-reduce compute them.
std::optional<TrustRatios> TrustRatiosOfServers(const Attempt& attempt) {
  const ExchangeTraits traits = ResolveExchange(attempt.options.job);
  if (!traits.servers_update || !traits.updates_await_trust_ratios) {
    return std::nullopt;
  }
  return TrustRatios(*attempt.layout);
}

// Returns true if waiting longer cannot make the final version safer: no
// checkpoint is pending and, with recovery.journal, a checkpoint or all
// replicas contain the version.
bool FinalVersionIsSafe(const Attempt& attempt) {
  const CheckpointSchedule& schedule = attempt.checkpoints->schedule();
  if (!schedule.over()) return false;
  const int64_t version = attempt.progress->evaluations().final_version();
  // Without a checkpoint, replicas preserve the version. A server reports a
  // version after the next server has stored the replica.
  return !attempt.keeps_replicas() || schedule.committed() == version ||
         attempt.servers.all_have(version);
}

}  // namespace

void Training::Prepare(ArenaLayout layout, const Ready& ready,
                       const Beginning& beginning) {
  attempt_.layout = std::move(layout);
  attempt_.progress.emplace(
      attempt_.options.job, ready.data(), attempt_.layout->chunk_count(),
      attempt_.options.servers, TrustRatiosOfServers(attempt_));
  if (beginning.resumes()) {
    attempt_.progress->Resume(beginning.version, beginning.job_state);
  }
  assignment_.Begin(attempt_.progress->evaluations().evaluated_version(),
                    attempt_.progress->evaluations().rate_factor());
  attempt_.mode->Begin(beginning.version, ready);
  attempt_.checkpoints.emplace(
      attempt_.options.job, ready, attempt_.options.servers,
      beginning.saved_version, attempt_.options.checkpoints);
}

void Training::Begin() {
  attempt_.phase.Train();
  attempt_.progress->Begin(attempt_.now());
  assignment_.Assign();
  RunCheckpoints();
}

absl::Status Training::OnSums(int shard, const StepSums& sums) {
  // Servers continue until they are told that the attempt is over.
  if (attempt_.ending() != AttemptEnding::kNone) return absl::OkStatus();
  if (!attempt_.phase.training()) {
    return absl::FailedPreconditionError("step sums outside of training");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::optional<GradientNorm> norm,
      attempt_.progress->AddSums(shard, sums, attempt_.now()));
  if (norm.has_value()) OnRound(sums.step(), *norm);
  return absl::OkStatus();
}

absl::Status Training::OnWorkerSums(int64_t incarnation, const StepSums& sums) {
  TRIBUTARY_RETURN_IF_ERROR(attempt_.mode->CheckReportsSums(incarnation));
  return OnSums(/*shard=*/0, sums);
}

void Training::OnRound(int64_t step, const GradientNorm& norm) {
  attempt_.mode->OnStepComplete(step);
  if (const auto gradient = attempt_.progress->TakeNonfinite()) {
    OnNonfinite(*gradient);
    if (!attempt_.phase.training()) return;
  }
  if (ServersAwaitNorms(attempt_.options.job)) {
    ServerOrder order;
    *order.mutable_norm() = norm;
    if (attempt_.keeps_replicas()) {
      *order.mutable_norm()->mutable_job_state() = attempt_.progress->Save();
    }
    attempt_.servers.Send(order);
  }
  FlushMetrics();
  attempt_.checkpoints->OnRound(*attempt_.progress);
  EndIfDue();
  RunCheckpoints();
  if (const auto loss = attempt_.progress->TakeNonfiniteLoss()) {
    offender_ = Offender{
        loss->contributor,
        absl::InvalidArgumentError(absl::StrCat(
            "step ", loss->step + 1,
            ": its loss_sum is nan or infinite, expected a number, because the "
            "gradient is finite"))};
  }
  if (early_evaluations_.empty() ||
      early_evaluations_.begin()->second.report.version() >
          attempt_.progress->round()) {
    return;
  }
  for (const auto& [piece, early] : std::exchange(early_evaluations_, {})) {
    const absl::Status added = AddEvaluation(early.report);
    if (!added.ok()) offender_ = Offender{early.incarnation, added};
  }
}

void Training::OnNonfinite(const JobProgress::NonfiniteGradient& gradient) {
  const absl::Status error = NonfiniteError(gradient, attempt_);
  if (attempt_.options.job.on_nonfinite() == JobSpec::SKIP) {
    metrics_(SkippedStepLine(gradient, attempt_));
    attempt_.Note(JobEvent::WARNING, "step_skipped",
                  std::string(error.message()));
  } else {
    attempt_.Fail(error, /*exit_code=*/1);
  }
}

absl::Status Training::OnEvaluation(const Member& member,
                                    const EvaluationReport& report) {
  if (!attempt_.progress.has_value()) {
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
    attempt_.Note(
        JobEvent::WARNING, "nonfinite_evaluation",
        absl::StrCat("the evaluation loss of ", member.Name(), ", piece ",
                     report.piece(), ", is ", report.loss_sum()),
        "worker", member.rank);
  }
  if (report.version() > attempt_.progress->round() &&
      report.version() == attempt_.progress->evaluations().Next()) {
    early_evaluations_.try_emplace(report.piece(),
                                   EarlyEvaluation{member.incarnation, report});
    return absl::OkStatus();
  }
  return AddEvaluation(report);
}

absl::Status Training::AddEvaluation(const EvaluationReport& report) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const bool complete,
      attempt_.progress->AddEvaluation(report, attempt_.now()));
  if (!complete) return absl::OkStatus();
  CheckpointSchedule* const schedule = attempt_.checkpoints->schedule();
  if (!attempt_.progress->evaluations().stop_reason().empty())
    schedule->EndAt(report.version());
  const std::optional<int64_t> best =
      attempt_.progress->evaluations().best_version();
  if (best.has_value() && attempt_.options.checkpoints != nullptr) {
    schedule->TakeBest(*best);
  }
  FlushMetrics();
  RunCheckpoints();
  return absl::OkStatus();
}

void Training::OnServerVersion(int shard, int64_t version) {
  attempt_.servers.SetVersion(shard, version);
  FinishIfDue();
}

absl::Status Training::OnSnapshot(int shard, const SnapshotReport& report) {
  if (!attempt_.checkpoints.has_value()) {
    return absl::FailedPreconditionError("a snapshot before the table");
  }
  attempt_.checkpoints->schedule()->OnReport(shard, report);
  RunCheckpoints();
  return absl::OkStatus();
}

void Training::OnSaved(int64_t incarnation, const Saved& saved) {
  if (const auto outcome = attempt_.mode->OnSaved(incarnation, saved)) {
    attempt_.checkpoints->schedule()->OnReport(/*shard=*/0, *outcome);
  }
  RunCheckpoints();
}

void Training::OnCheckpointFolder(const absl::StatusOr<std::string>& folder) {
  if (!attempt_.checkpoints.has_value()) return;
  attempt_.checkpoints->schedule()->OnFolder(folder);
  RunCheckpoints();
}

void Training::OnCheckpointCommitted(const absl::Status& status) {
  if (!attempt_.checkpoints.has_value()) return;
  attempt_.checkpoints->schedule()->OnCommitted(status);
  if (status.ok()) {
    const int64_t step = attempt_.checkpoints->committed_step();
    attempt_.Note(JobEvent::INFO, "checkpoint",
                  absl::StrCat("a checkpoint of step ", step, " is complete"));
  }
  RunCheckpoints();
  if (!status.ok() || !attempt_.phase.training() ||
      attempt_.checkpoints->schedule()->over()) {
    return;
  }
  const absl::Status begin_again = attempt_.mode->OnCheckpoint();
  if (!begin_again.ok())
    attempt_.RollBack(AttemptEnding::kRolledBack, begin_again);
}

void Training::RunCheckpoints() {
  if (!attempt_.checkpoints.has_value() || !attempt_.phase.training()) return;
  attempt_.checkpoints->Run(
      *attempt_.progress, attempt_.mode->earliest_checkpoint(), attempt_.now(),
      [this](const ServerOrder& order) { OrderSnapshot(order); });
  const CheckpointSchedule& schedule = *attempt_.checkpoints->schedule();
  if (schedule.failures() > checkpoint_failures_) {
    checkpoint_failures_ = schedule.failures();
    attempt_.Note(JobEvent::WARNING, "checkpoint_failed", schedule.failure());
  }
  assignment_.AnnounceEvaluated();
  attempt_.mode->OrderWaitingSnapshot(attempt_.progress->round());
  assignment_.GrantSteps();
  FinishIfDue();
  attempt_.EndIfSaved();
  if (attempt_.draining && attempt_.phase.training() &&
      attempt_.checkpoints->schedule()->over()) {
    attempt_.phase.Drain();
  }
  if (leaving_.has_value() && attempt_.phase.training() &&
      !attempt_.checkpoints->schedule()->soon()) {
    LetServerLeave();
  }
}

void Training::RunCheckpointsWhileIdle() {
  if (!attempt_.phase.training() || attempt_.membership.synced_count() > 0)
    return;
  // A worker that takes the stages of a lost one will complete the step.
  const auto& members = attempt_.membership.members();
  if (attempt_.in_stages() &&
      std::any_of(members.begin(), members.end(),
                  [](const auto& member) { return member.second.opened; })) {
    return;
  }
  attempt_.checkpoints->schedule()->OnIdle(
      attempt_.progress->round(), attempt_.mode->earliest_checkpoint());
  RunCheckpoints();
}

void Training::OrderSnapshot(const ServerOrder& order) {
  const int64_t version = order.snapshot().version();
  // In an all-reduce, the members send these versions without a request.
  const bool kept =
      version == attempt_.progress->evaluations().final_version() ||
      (KeepsEvaluatedVersions(attempt_.options.job) &&
       attempt_.progress->evaluations().Due(version));
  attempt_.mode->OrderSnapshot(order, kept);
}

void Training::FinishIfDue() {
  // Workers stay until the final version is safe: if a server is lost before
  // that, they must compute steps again.
  if (!attempt_.phase.training() || !attempt_.progress->finished() ||
      !FinalVersionIsSafe(attempt_) ||
      !attempt_.mode->HasState(
          attempt_.progress->evaluations().final_version())) {
    return;
  }
  attempt_.phase.Finish();
  assignment_.TellFinished();
}

absl::Status Training::OnEndJob(const EndJob& request) {
  // Others may have asked before.
  if (!attempt_.phase.training()) return absl::OkStatus();
  const ExchangeTraits traits = ResolveExchange(attempt_.options.job);
  if (traits.kind != ExchangeKind::kSynchronous) {
    return absl::InvalidArgumentError(
        "a program can end the job early only with exchange.parameter_server "
        "and consistency synchronous: set stop_when of the job instead");
  }
  if (request.version() < 1) {
    return absl::InvalidArgumentError(
        "a worker asks to end the job before its first step is complete");
  }
  if (request.version() < attempt_.progress->round()) {
    return absl::AbortedError(absl::StrCat(
        "asks to end the job at version ", request.version(),
        ", but other workers have computed version ",
        attempt_.progress->round(), ": all programs must decide alike"));
  }
  end_at_ = request.version();
  EndIfDue();
  RunCheckpoints();
  return absl::OkStatus();
}

void Training::EndIfDue() {
  if (end_at_ != attempt_.progress->round()) return;
  const int64_t version = std::exchange(end_at_, -1);
  if (!attempt_.progress->EndAt(version, "ended by the program of a worker")) {
    return;
  }
  attempt_.checkpoints->schedule()->EndAt(version);
  FlushMetrics();
}

void Training::Drain() {
  if (attempt_.draining) return;
  attempt_.draining = true;
  attempt_.membership.ShortenLease(attempt_.lease());
  if (attempt_.phase.training()) {
    attempt_.checkpoints->schedule()->Drain();
    RunCheckpoints();
  } else if (attempt_.phase.waiting()) {
    attempt_.phase.Drain();  // No work can be lost yet.
  }
}

void Training::OnLeaving(int shard) {
  if (!attempt_.phase.under_way()) return;
  leaving_ = shard;
  if (attempt_.checkpoints.has_value())
    attempt_.checkpoints->schedule()->TakeSoon();
  if (attempt_.phase.waiting()) {
    LetServerLeave();
  } else {
    RunCheckpoints();
  }
}

void Training::LetServerLeave() {
  attempt_.RollBack(AttemptEnding::kRolledBack,
                    absl::UnavailableError(absl::StrCat(
                        "server ", *leaving_, " (",
                        attempt_.servers.servers()[*leaving_].address,
                        ") leaves: it received a request to stop")));
}

void Training::FlushMetrics() {
  for (const std::string& line : attempt_.progress->TakeMetrics())
    metrics_(line);
}

CheckpointManifest Training::FinalManifest() const {
  return attempt_.complete()
             ? attempt_.options.resume->manifest
             : attempt_.checkpoints->FinalManifest(*attempt_.progress);
}

}  // namespace tributary
