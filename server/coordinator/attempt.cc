#include "server/coordinator/attempt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "server/coordinator/nonfinite_gradient.h"
#include "server/run_mode/run_mode_factory.h"

namespace tributary {
namespace {

// Assignments of jobs with at most this many workers are never delayed.
constexpr int kManyWorkers = 64;

// The longest lease while a job is being stopped. Processes send a heartbeat
// every second. With a longer lease, a worker that is suspended would hold up
// the end of the job for so long that the sender of SIGTERM ends it by SIGKILL.
constexpr absl::Duration kDrainLease = absl::Seconds(2);

}  // namespace

Attempt::Attempt(const AttemptOptions& options, Clock clock,
                 MetricsSink metrics, std::function<void(int64_t)> on_forget)
    : options_(options),
      clock_(std::move(clock)),
      metrics_(std::move(metrics)),
      on_forget_(std::move(on_forget)),
      membership_(static_cast<int>(options.job.batch().micro_batches()),
                  options.lease),
      servers_(options.servers),
      mode_(CreateRunMode(options_.job, &membership_, &servers_)),
      secrets_(options.secret_key),
      alone_since_(clock_()) {}

void Attempt::Prepare(ArenaLayout layout, const Ready& ready,
                      const Beginning& beginning) {
  layout_ = std::move(layout);
  progress_.emplace(options_.job, ready.data(), layout_->chunk_count(),
                    options_.servers);
  if (beginning.resumes()) {
    progress_->Resume(beginning.version, beginning.job_state);
  }
  announced_version_ = progress_->evaluated_version();
  mode_->Begin(beginning.version);
  checkpoints_.emplace(options_.job, ready, options_.servers,
                       beginning.saved_version, options_.checkpoints);
}

void Attempt::Train() {
  phase_.Train();
  progress_->Begin(clock_());
  AssignWork();
  RunCheckpoints();
}

bool Attempt::complete() const {
  return options_.resume.has_value() && options_.resume->manifest.complete();
}

void Attempt::FinishComplete() {
  if (!phase_.waiting()) return;
  const ResumePoint& resume = *options_.resume;
  absl::StatusOr<ArenaLayout> layout =
      ArenaLayout::Create(resume.manifest.table());
  if (!layout.ok()) {
    Fail(layout.status(), /*exit_code=*/1);
    return;
  }
  Beginning beginning;
  beginning.step = resume.manifest.step();
  beginning.job_state = resume.manifest.job_state();
  beginning.checkpoint = resume.folder;
  if (options_.on_begin) options_.on_begin(beginning);
  layout_ = *std::move(layout);
  phase_.Finish();
  RemoveWorkers(absl::OutOfRangeError("the job is done"));
  DataFacts facts;
  facts.set_steps(resume.manifest.step());
  facts.set_steps_per_epoch(1);
  progress_.emplace(options_.job, facts, /*chunks=*/1, options_.servers);
  progress_->Resume(resume.manifest.version(), resume.manifest.job_state());
  progress_->Begin(clock_());
}

void Attempt::OnJoined(const Member& member) {
  Note(JobEvent::INFO, "worker_joined",
       absl::StrCat(member.Name(), " has joined"), "worker", member.rank);
  most_workers_ = std::max(most_workers_, membership_.count());
  alone_since_ = absl::InfiniteFuture();
}

void Attempt::OnHeartbeat(Member* member, const Heartbeat& heartbeat) {
  double waiting_seconds = 0;
  if (progress_.has_value()) {
    StepBreakdown* breakdown = progress_->breakdown();
    breakdown->AddCounters(member->incarnation, heartbeat.statistics());
    waiting_seconds = breakdown->waiting_seconds(member->incarnation);
    // A worker that opens its data does not send statistics yet.
    if (heartbeat.has_statistics()) {
      progress_->resources()->Add("worker", member->rank,
                                  heartbeat.statistics(), clock_());
    }
  }
  membership_.AddHeartbeat(member, heartbeat, waiting_seconds, clock_());
  if (phase_.training() && mode_->AssignmentIsSlow(clock_())) {
    ++assignments_by_speed_;
    AssignWork();
  }
}

void Attempt::AssignWork() {
  assignment_due_ = membership_.count() > kManyWorkers &&
                    clock_() - assigned_ < kAssignInterval;
  if (assignment_due_) {
    GrantSteps();
  } else {
    AssignWorkNow();
  }
}

void Attempt::AssignWorkIfDue() {
  if (assignment_due_ && phase_.training()) AssignWorkNow();
}

void Attempt::AssignWorkNow() {
  assignment_due_ = false;
  assigned_ = clock_();
  auto orders = mode_->Assign(progress_->facts().evaluation_pieces(), clock_());
  for (auto& [incarnation, list] : orders) {
    const Member* const member = membership_.Find(incarnation);
    for (CoordinatorOrder& order : list) {
      if (order.has_deal()) {
        Deal* const deal = order.mutable_deal();
        deal->set_evaluated_version(announced_version_);
        deal->set_secret(secrets_.OfAssignment(incarnation, *deal));
      }
      member->link->Send(order);
    }
    progress_->breakdown()->Introduce(incarnation, member->rank);
  }
  GrantSteps();
}

void Attempt::GrantSteps() {
  if (phase_.training()) mode_->GrantSteps(StepLimit());
}

absl::Status Attempt::OnStepRequest(const Member& member) {
  TRIBUTARY_RETURN_IF_ERROR(mode_->RequestStep(member));
  GrantSteps();
  return absl::OkStatus();
}

absl::Status Attempt::OnWorkerSums(int64_t incarnation, const StepSums& sums) {
  TRIBUTARY_RETURN_IF_ERROR(mode_->CheckReportsSums(incarnation));
  return OnSums(/*shard=*/0, sums);
}

void Attempt::OnSaved(int64_t incarnation, const Saved& saved) {
  if (const auto outcome = mode_->OnSaved(incarnation, saved)) {
    checkpoints_->schedule()->OnReport(/*shard=*/0, *outcome);
  }
  RunCheckpoints();
}

void Attempt::RemoveWorker(int64_t incarnation, const absl::Status& status) {
  const Member* const member = membership_.Find(incarnation);
  if (member == nullptr) return;
  if (!status.ok()) member->link->Close(status);
  const std::string name = member->Name();
  const int rank = member->rank;
  membership_.Remove(incarnation);
  if (progress_.has_value()) progress_->resources()->Remove("worker", rank);
  ForgetWorker(incarnation);
  if (membership_.count() == 0) alone_since_ = clock_();
  if (phase_.training()) {
    ++workers_lost_;
    Note(JobEvent::WARNING, "worker_lost",
         status.ok() ? absl::StrCat(name, ": its connection has ended")
                     : absl::StrCat(name, ": ", status.message()),
         "worker", rank);
    OnWorkerLost(incarnation, name);
  }
}

void Attempt::OnWorkerExpired(const Member& member) {
  ++lease_expiries_;
  const absl::Status reason = absl::DeadlineExceededError(
      absl::StrCat(member.Name(), " was silent for longer than its lease of ",
                   absl::FormatDuration(lease())));
  Note(JobEvent::WARNING, "lease_expired", std::string(reason.message()),
       "worker", member.rank);
  RemoveWorker(member.incarnation, reason);
}

void Attempt::RemoveWorkers(const absl::Status& status) {
  while (membership_.count() > 0) {
    RemoveWorker(membership_.members().begin()->first, status);
  }
}

void Attempt::ForgetWorker(int64_t incarnation) {
  if (progress_.has_value()) progress_->breakdown()->RemoveWorker(incarnation);
  mode_->RemoveWorker(incarnation);
  on_forget_(incarnation);
}

void Attempt::OnWorkerLost(int64_t incarnation, const std::string& name) {
  const absl::Status lost = mode_->OnWorkerLost(incarnation, name);
  if (lost.ok()) {
    AssignWork();
  } else {
    RollBack(AttemptEnding::kRolledBack, lost);
  }
}

absl::Status Attempt::OnSums(int shard, const StepSums& sums) {
  // Servers continue until they are told that the attempt is over.
  if (ending() != AttemptEnding::kNone) return absl::OkStatus();
  if (!phase_.training()) {
    return absl::FailedPreconditionError("step sums outside of training");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::optional<GradientNorm> norm,
                             progress_->AddSums(shard, sums, clock_()));
  if (norm.has_value()) OnRound(sums.step(), *norm);
  return absl::OkStatus();
}

void Attempt::OnRound(int64_t step, const GradientNorm& norm) {
  mode_->OnStepComplete(step);
  if (const auto gradient = progress_->TakeNonfinite()) {
    OnNonfinite(*gradient);
    if (!phase_.training()) return;
  }
  if (mode_->servers_await_norms()) {
    ServerOrder order;
    *order.mutable_norm() = norm;
    if (keeps_replicas()) {
      *order.mutable_norm()->mutable_job_state() = progress_->Save();
    }
    servers_.Send(order);
  }
  FlushMetrics();
  checkpoints_->OnRound(*progress_);
  RunCheckpoints();
  if (const auto loss = progress_->TakeNonfiniteLoss()) {
    offender_ = Offender{
        loss->contributor,
        absl::InvalidArgumentError(absl::StrCat(
            "step ", loss->step + 1,
            ": its loss_sum is nan or infinite, expected a number, because the "
            "gradient is finite"))};
  }
}

void Attempt::OnNonfinite(const JobProgress::NonfiniteGradient& gradient) {
  if (options_.job.on_nonfinite() == JobSpec::SKIP) {
    metrics_(SkippedStepLine(gradient, *layout_, membership_));
    Note(
        JobEvent::WARNING, "step_skipped",
        std::string(NonfiniteError(gradient, *layout_, membership_).message()));
  } else {
    Fail(NonfiniteError(gradient, *layout_, membership_), /*exit_code=*/1);
  }
}

absl::Status Attempt::OnSnapshot(int shard, const SnapshotReport& report) {
  if (!checkpoints_.has_value()) {
    return absl::FailedPreconditionError("a snapshot before the table");
  }
  checkpoints_->schedule()->OnReport(shard, report);
  RunCheckpoints();
  return absl::OkStatus();
}

void Attempt::OnServerFailure(int shard, const Failure& failure) {
  if (failure.checkpoint_damaged()) {
    RollBack(AttemptEnding::kDamaged,
             absl::DataLossError(
                 absl::StrCat("server ", shard, ": ", failure.message())));
  } else {
    FailAsReported(failure, absl::StrCat("server ", shard,
                                         " failed: ", failure.message()));
  }
}

void Attempt::OnServerStatistics(int shard,
                                 const ProcessStatistics& statistics) {
  servers_.SetStatistics(shard, statistics);
  if (progress_.has_value()) {
    progress_->resources()->Add("server", shard, statistics, clock_());
  }
}

void Attempt::OnServerVersion(int shard, int64_t version) {
  servers_.SetVersion(shard, version);
  FinishIfDue();
}

void Attempt::OnLeaving(int shard) {
  if (!phase_.under_way()) return;
  leaving_ = shard;
  if (checkpoints_.has_value()) checkpoints_->schedule()->TakeSoon();
  if (phase_.waiting()) {
    LetServerLeave();
  } else {
    RunCheckpoints();
  }
}

void Attempt::LetServerLeave() {
  RollBack(
      AttemptEnding::kRolledBack,
      absl::UnavailableError(absl::StrCat(
          "server ", *leaving_, " (", servers_.servers()[*leaving_].address,
          ") leaves: it received a request to stop")));
}

void Attempt::OnServerGone(int shard) {
  if (!servers_.Remove(shard) || phase_.concluded()) return;
  const absl::Status reason = absl::UnavailableError(absl::StrCat(
      "lost server ", shard, " (", servers_.servers()[shard].address,
      ") and its part of the weights"));
  Note(JobEvent::WARNING, "server_lost", std::string(reason.message()),
       "server", shard);
  // The next server holds a replica of this server's part of the model.
  if (phase_.finishing() && keeps_replicas()) return;
  if (phase_.finishing() && ending() == AttemptEnding::kNone && !complete() &&
      checkpoints_->schedule()->committed() != progress_->final_version()) {
    // Workers have begun to leave, so none would be left to compute the lost
    // steps again.
    Fail(reason, /*exit_code=*/1);
    return;
  }
  RollBack(AttemptEnding::kRolledBack, reason);
}

void Attempt::OnServerExpired(int shard) {
  ++lease_expiries_;
  const absl::Status reason = absl::DeadlineExceededError(absl::StrCat(
      "server ", shard, " was silent for longer than its lease of ",
      absl::FormatDuration(lease())));
  Note(JobEvent::WARNING, "lease_expired", std::string(reason.message()),
       "server", shard);
  servers_.servers()[shard].link->Close(JoinAgain(reason));
  RollBack(AttemptEnding::kRolledBack, reason);
}

void Attempt::OnCheckpointFolder(const absl::StatusOr<std::string>& folder) {
  if (!checkpoints_.has_value()) return;
  checkpoints_->schedule()->OnFolder(folder);
  RunCheckpoints();
}

void Attempt::OnCheckpointCommitted(const absl::Status& status) {
  if (!checkpoints_.has_value()) return;
  checkpoints_->schedule()->OnCommitted(status);
  if (status.ok()) {
    const int64_t step = checkpoints_->committed_step();
    Note(JobEvent::INFO, "checkpoint",
         absl::StrCat("a checkpoint of step ", step, " is complete"));
  }
  RunCheckpoints();
  if (!status.ok() || !phase_.training() || checkpoints_->schedule()->over()) {
    return;
  }
  const absl::Status begin_again = mode_->OnCheckpoint();
  if (!begin_again.ok()) RollBack(AttemptEnding::kRolledBack, begin_again);
}

void Attempt::RunCheckpoints() {
  if (!checkpoints_.has_value() || !phase_.training()) return;
  checkpoints_->Run(*progress_, mode_->earliest_checkpoint(), clock_(),
                    [this](const ServerOrder& order) { OrderSnapshot(order); });
  const CheckpointSchedule& schedule = *checkpoints_->schedule();
  if (schedule.failures() > checkpoint_failures_) {
    checkpoint_failures_ = schedule.failures();
    Note(JobEvent::WARNING, "checkpoint_failed", schedule.failure());
  }
  AnnounceEvaluated();
  mode_->OrderWaitingSnapshot(progress_->round());
  GrantSteps();
  FinishIfDue();
  if (draining_ && phase_.training() && checkpoints_->schedule()->over()) {
    phase_.Drain();
  }
  if (leaving_.has_value() && phase_.training() &&
      !checkpoints_->schedule()->soon()) {
    LetServerLeave();
  }
}

void Attempt::RunCheckpointsWhileIdle() {
  if (!phase_.training() || membership_.synced_count() > 0) return;
  checkpoints_->schedule()->OnIdle(
      progress_->round(), mode_->earliest_checkpoint(), progress_->finished());
  RunCheckpoints();
}

bool Attempt::FinalVersionIsSafe() const {
  const CheckpointSchedule& schedule = checkpoints_->schedule();
  if (!schedule.over()) return false;
  const int64_t version = progress_->final_version();
  // Without a checkpoint, replicas preserve the version. A server reports a
  // version after the next server has stored the replica.
  return !keeps_replicas() || schedule.committed() == version ||
         servers_.all_have(version);
}

void Attempt::FinishIfDue() {
  // Workers stay until the final version is safe: if a server is lost before
  // that, they must compute steps again.
  if (!phase_.training() || !progress_->finished() || !FinalVersionIsSafe() ||
      !mode_->HasState(progress_->final_version())) {
    return;
  }
  phase_.Finish();
  finishing_since_ = clock_();
  CoordinatorOrder order;
  order.mutable_finished()->set_version(progress_->final_version());
  for (const auto& [incarnation, member] : membership_.members()) {
    member.link->Send(order);
  }
}

void Attempt::Fail(const absl::Status& reason, int exit_code) {
  if (!phase_.Fail(reason, exit_code)) return;
  Note(JobEvent::ERROR, "failed", std::string(reason.message()));
  const absl::Status told = JobFailed(reason);
  membership_.Close(told);
  servers_.Close(told);
}

void Attempt::FailAsReported(const Failure& failure,
                             const std::string& reason) {
  Fail(failure.exit_code() == 2 ? absl::InvalidArgumentError(reason)
                                : absl::AbortedError(reason),
       failure.exit_code());
}

void Attempt::RollBack(AttemptEnding ending, const absl::Status& reason) {
  if (phase_.RollBack(ending, reason,
                      /*workers_left=*/membership_.count() > 0)) {
    Note(JobEvent::WARNING, "rolled_back", std::string(reason.message()));
    SendAway(reason);
  }
}

void Attempt::GiveUp(const absl::Status& reason) {
  if (phase_.GiveUp(reason)) SendAway(reason);
}

void Attempt::SendAway(const absl::Status& reason) {
  workers_at_ending_ = membership_.count();
  membership_.Close(JoinAgain(reason));
  servers_.Close(JoinAgain(reason));
}

absl::Duration Attempt::lease() const {
  return draining_ ? std::min(options_.lease, kDrainLease) : options_.lease;
}

void Attempt::Drain() {
  if (draining_) return;
  draining_ = true;
  membership_.ShortenLease(lease());
  if (phase_.training()) {
    checkpoints_->schedule()->Drain();
    RunCheckpoints();
  } else if (phase_.waiting()) {
    phase_.Drain();  // No work can be lost yet.
  }
}

void Attempt::Conclude() {
  // A failed job stays failed, so that workers that join late are told.
  phase_.Conclude();
  if (phase_.drained()) {
    CoordinatorOrder stopped;
    stopped.mutable_finished()->set_stopped(true);
    for (const auto& [incarnation, member] : membership_.members()) {
      member.link->Send(stopped);
    }
    membership_.Close(
        absl::FailedPreconditionError("the job was stopped by request"));
  }
  ServerOrder order;
  order.mutable_finish()->set_stopped(phase_.drained());
  servers_.Send(order);
}

}  // namespace tributary
