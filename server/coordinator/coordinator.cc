#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/counted.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/optimizer/rounds.h"
#include "server/coordinator/job_status.h"
#include "server/coordinator/nonfinite_gradient.h"
#include "server/coordinator/peer_checks.h"

namespace tributary {
namespace {

// Workers that do not answer Finished are given up after this.
constexpr absl::Duration kFarewellTimeout = absl::Seconds(10);

// Beyond it notices are dropped until somebody takes them: they come from
// workers that may be started again and again.
constexpr size_t kMostNotices = 100;

// For peers whose call ends because the attempt does.
absl::Status JoinAgain(const absl::Status& reason) {
  return absl::AbortedError(absl::StrCat(reason.message(), "; join again"));
}
// No use to join again.
absl::Status JobFailed(const absl::Status& reason) {
  return absl::FailedPreconditionError(
      absl::StrCat("the job failed: ", reason.message()));
}

// What a peer says it failed of, with the code that leads to its exit code.
absl::Status ReportedError(const Failure& failure, const std::string& reason) {
  return failure.exit_code() == 2 ? absl::InvalidArgumentError(reason)
                                  : absl::AbortedError(reason);
}

}  // namespace

Coordinator::Coordinator(const Options& options, Clock clock,
                         MetricsSink metrics)
    : options_(options),
      beginning_{options.job,    JobId(options.job),
                 options.resume, options.resume_from_memory,
                 options.run,    options.attempt},
      asynchronous_(options.job.exchange()
                        .parameter_server()
                        .consistency()
                        .has_asynchronous()),
      all_reduce_(options.job.exchange().has_all_reduce()),
      gives_norms_(AwaitsNorm(options.job) && !all_reduce_),
      replicates_(options.job.recovery().journal()),
      clock_(std::move(clock)),
      metrics_(std::move(metrics)),
      membership_(static_cast<int>(options.job.batch().micro_batches()),
                  options.lease),
      servers_(options.servers),
      quorum_(options.expected_workers, options.start_timeout,
              /*data_known=*/options.data.has_value()),
      data_owner_("the workers that it was begun with"),
      group_(&membership_) {
  alone_since_ = servers_missing_since_ = last_tick_ = stall_ended_ = clock_();
}

absl::StatusOr<int64_t> Coordinator::AddWorker(const Join& join,
                                               WorkerLink* link) {
  TRIBUTARY_RETURN_IF_ERROR(CheckProtocol(join.protocol_version()));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S2"));
  absl::MutexLock lock(&mu_);
  if (phase_ == StatusReply::FAILED) return JobFailed(failure_);
  if (phase_ == StatusReply::FINISHING || phase_ == StatusReply::DONE) {
    return absl::OutOfRangeError("the job is done; nothing to join");
  }
  if (phase_ == StatusReply::DRAINED) {
    return absl::FailedPreconditionError("the job was stopped by request");
  }
  if (phase_ == StatusReply::RECOVERING) return JoinAgain(failure_);
  // Who takes a rank over takes a place that was taken before.
  if (membership_.count() >= options_.max_workers &&
      !membership_.HasRank(join.rank())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the job has ", Counted(membership_.count(), "worker"),
                     ", as many as its server allows: start that with a higher "
                     "--workers for more"));
  }
  const Membership::Admitted admitted = membership_.Add(join, clock_());
  if (admitted.fenced.has_value()) {
    const Member& old = *admitted.fenced;
    old.link->Close(absl::FailedPreconditionError(absl::StrCat(
        "rank ", admitted.rank, " was taken over by a newer process (host ",
        join.host(), ", process ", join.pid(),
        "): give each worker a rank of its own, or none")));
    Forget(old.incarnation);
  }
  membership_.Find(admitted.incarnation)->link = link;
  most_workers_ = std::max(most_workers_, membership_.count());
  alone_since_ = absl::InfiniteFuture();
  AdmitWaiting();
  // Last: it may send everybody away, this worker included.
  if (admitted.fenced.has_value() && phase_ == StatusReply::TRAINING) {
    OnWorkerLost(admitted.fenced->incarnation, admitted.fenced->Name());
  }
  return admitted.incarnation;
}

void Coordinator::AdmitWaiting() {
  if (!servers_.all_there()) return;
  for (const auto& [incarnation, listed] : membership_.members()) {
    if (listed.admitted) continue;
    Member* const member = membership_.Find(incarnation);
    member->admitted = true;
    member->link->Send(AdmissionOrder(beginning_, servers_.servers(), *member,
                                      options_.lease));
  }
}

absl::Status Coordinator::OnWorkerReport(int64_t incarnation,
                                         const WorkerReport& report) {
  absl::MutexLock lock(&mu_);
  Member* member = membership_.Find(incarnation);
  if (member == nullptr) {
    return absl::AbortedError(
        absl::StrCat("incarnation ", incarnation,
                     " is out: its lease ended, or its rank was taken over; "
                     "join again"));
  }
  member->last_heard = clock_();
  switch (report.report_case()) {
    case WorkerReport::kReady:
      return OnReady(member, report.ready());
    case WorkerReport::kSynced:
      if (!member->opened) {
        return absl::FailedPreconditionError("Synced before Open");
      }
      if (!member->synced) {
        member->synced = true;
        initialized_ = true;
        first_synced_ = std::min(first_synced_, clock_());
        if (phase_ == StatusReply::WAITING) {
          StartIfDue();
        } else if (phase_ == StatusReply::TRAINING) {
          AssignWork();
        }
      }
      return absl::OkStatus();
    case WorkerReport::kHeartbeat:
      OnHeartbeat(member, report.heartbeat());
      return absl::OkStatus();
    case WorkerReport::kClaim:
      if (!step_leases_.has_value() || !member->synced) {
        return absl::FailedPreconditionError(
            "a claim before Synced, or not in asynchronous mode");
      }
      if (!step_leases_->Request(incarnation)) {
        return absl::ResourceExhaustedError(
            "claims more steps than it can compute");
      }
      GrantStepLeases();
      return absl::OkStatus();
    case WorkerReport::kEvaluation:
      return OnEvaluation(report.evaluation());
    case WorkerReport::kSums:
      if (!group_.Reports(incarnation)) {
        return absl::FailedPreconditionError(
            "step sums from a worker that is not the first of an all-reduce");
      }
      return OnSums(/*shard=*/0, report.sums());
    case WorkerReport::kPublication:
      return group_.Publish(incarnation, report.publication());
    case WorkerReport::kSaved:
      if (const auto outcome = group_.OnSaved(incarnation, report.saved())) {
        checkpoints_->plan()->OnReport(/*shard=*/0, *outcome);
      }
      RunCheckpoints();
      return absl::OkStatus();
    case WorkerReport::kFailure:
      OnFailure(*member, report.failure());
      return absl::OkStatus();
    case WorkerReport::kFarewell:
      finished_.push_back(
          {"worker", member->rank, report.farewell().statistics()});
      return absl::OkStatus();
    case WorkerReport::kJoin:
    case WorkerReport::REPORT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected report from a worker");
}

void Coordinator::OnHeartbeat(Member* member, const Heartbeat& heartbeat) {
  double waiting_seconds = 0;
  if (progress_.has_value()) {
    StepBreakdown* breakdown = progress_->breakdown();
    breakdown->AddCounters(member->incarnation, heartbeat.statistics());
    waiting_seconds = breakdown->waiting_seconds(member->incarnation);
  }
  membership_.AddHeartbeat(member, heartbeat, waiting_seconds, clock_());
  if (phase_ == StatusReply::TRAINING && !all_reduce_ &&
      membership_.AssignmentIsSlow(clock_())) {
    ++reassignments_by_speed_;
    AssignWork();
  }
}

absl::Status Coordinator::OnReady(Member* member, const Ready& ready) {
  // Before, there are servers missing that would have to be told.
  if (!member->admitted) {
    return absl::FailedPreconditionError("Ready before Admission");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(ready.table()));
  const absl::Status fits = CheckReady(ready);
  if (!fits.ok()) {
    // Its connection ends with that.
    RefuseWorker(member->incarnation, fits, std::string(fits.message()));
    return fits;
  }
  if (ready.data().steps() < 1 || ready.data().steps_per_epoch() < 1) {
    return absl::InvalidArgumentError("a job needs at least one step");
  }
  member->device = ready.device();
  member->nccl_device = ready.nccl_device();
  member->ready = true;
  quorum_.Add(*member, ready, layout.signature(), clock_());
  TRIBUTARY_RETURN_IF_ERROR(AdoptIfDue());
  OpenWaiting();
  return absl::OkStatus();
}

absl::Status Coordinator::CheckReady(const Ready& ready) {
  if (layout_.has_value()) {
    TRIBUTARY_RETURN_IF_ERROR(
        CheckData(ready.data(), progress_->facts(), data_owner_));
    return CheckModel(ready.table(), *layout_);
  }
  if (!options_.data.has_value()) return absl::OkStatus();
  return CheckData(ready.data(), *options_.data, data_owner_);
}

absl::Status Coordinator::AdoptIfDue() {
  if (phase_ != StatusReply::WAITING || layout_.has_value()) {
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<StartQuorum::Decision>> decided =
      quorum_.Decide(clock_());
  if (!decided.ok()) {
    FailLocked(decided.status(), /*exit_code=*/2);
    return decided.status();
  }
  if (!decided->has_value()) return absl::OkStatus();
  const StartQuorum::Decision decision = **std::move(decided);
  data_owner_ = decision.whose;
  TRIBUTARY_RETURN_IF_ERROR(Adopt(decision.ready));
  for (const auto& [incarnation, ready] : decision.outvoted) {
    const absl::Status outvoted = CheckReady(ready);
    RefuseWorker(incarnation, outvoted, std::string(outvoted.message()));
  }
  OpenWaiting();
  return absl::OkStatus();
}

void Coordinator::RefuseWorker(int64_t incarnation, const absl::Status& told,
                               const std::string& reason) {
  const Member& member = *membership_.Find(incarnation);
  last_refusal_ = absl::StrCat(member.Name(), " cannot take part: ", reason);
  if (notices_.size() < kMostNotices) notices_.push_back(last_refusal_);
  quorum_.Refuse(member);
  RemoveWorker(incarnation, told);
}

std::vector<std::string> Coordinator::TakeNotices() {
  absl::MutexLock lock(&mu_);
  return std::exchange(notices_, {});
}

absl::Status Coordinator::Adopt(const Ready& ready) {
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout,
                             ArenaLayout::Create(ready.table()));
  const absl::StatusOr<Beginning> beginning =
      ChooseBeginning(beginning_, ready, servers_.servers());
  if (!beginning.ok()) {
    FailLocked(beginning.status(), /*exit_code=*/2);
    return beginning.status();
  }
  if (options_.on_begin) options_.on_begin(*beginning);
  layout_ = std::move(layout);
  progress_.emplace(options_.job, ready.data(), layout_->chunk_count(),
                    options_.servers);
  from_memory_ = !beginning->holders.empty();
  if (beginning->resumes()) {
    progress_->Resume(beginning->version, beginning->job_state);
    initialized_ = true;
  }
  if (asynchronous_) step_leases_.emplace(/*limit=*/0, beginning->version);
  checkpoints_.emplace(options_.job, ready, options_.servers,
                       beginning->saved_version, options_.checkpoints);
  const auto order = [&](int shard) ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return ConfigureOrder(beginning_, ready, *beginning, servers_.servers(),
                          shard);
  };
  if (all_reduce_) {
    open_ = OpenOrder(order(/*shard=*/0), *beginning);
    initialized_ = true;  // Every worker does it for itself.
  }
  servers_.SendEach(order);
  return absl::OkStatus();
}

void Coordinator::OpenWaiting() {
  if (!layout_.has_value() || !servers_.all_configured()) return;
  if (replicates_ && !servers_.all_replicated()) return;
  for (const auto& [incarnation, listed] : membership_.members()) {
    if (!listed.ready) continue;
    const bool initialize = !initialized_ && initializer_ == 0;
    if (listed.opened && !initialize) continue;
    if (initialize) initializer_ = incarnation;
    Member* const member = membership_.Find(incarnation);
    member->opened = true;
    CoordinatorOrder order = open_;
    order.mutable_open()->set_initialize(initialize);
    member->link->Send(order);
  }
}

void Coordinator::StartIfDue() {
  if (phase_ != StatusReply::WAITING || membership_.synced_count() == 0) return;
  if (membership_.synced_count() < quorum_.awaited() &&
      clock_() - first_synced_ < options_.start_timeout) {
    return;
  }
  phase_ = StatusReply::TRAINING;
  progress_->Begin(clock_());
  AssignWork();
  RunCheckpoints();
}

void Coordinator::AssignWork() {
  if (group_.begun()) return;
  const auto assignments =
      membership_.AssignWork(progress_->facts().evaluation_pieces(), clock_(),
                             /*spares_rest=*/all_reduce_);
  if (all_reduce_) {
    group_.Begin(assignments, options_.job.exchange().all_reduce().backend());
  }
  for (const auto& [incarnation, assignment] : assignments) {
    CoordinatorOrder order;
    *order.mutable_deal() = assignment;
    order.mutable_deal()->set_evaluated_version(progress_->evaluated_version());
    const Member* const member = membership_.Find(incarnation);
    member->link->Send(order);
    if (all_reduce_) member->link->Send(group_.OrderTo(incarnation));
    progress_->breakdown()->Introduce(incarnation, member->rank);
  }
  GrantStepLeases();
}

void Coordinator::GrantStepLeases() {
  if (!step_leases_.has_value() || phase_ != StatusReply::TRAINING) return;
  int64_t limit = progress_->NextEvaluation();
  // Every chunk is to come by the checkpoint's version with the same steps.
  if (checkpoints_->plan()->version() >= 0 && !checkpoints_->plan()->taken()) {
    limit = std::min(limit, checkpoints_->plan()->version());
  }
  step_leases_->SetLimit(limit);
  for (const auto& [incarnation, step] : step_leases_->Grant()) {
    CoordinatorOrder order;
    order.mutable_claimed()->set_step(step);
    membership_.Find(incarnation)->link->Send(order);
  }
}

absl::Status Coordinator::OnEvaluation(const EvaluationReport& report) {
  if (!progress_.has_value()) {
    return absl::FailedPreconditionError("evaluation before the start");
  }
  absl::StatusOr<bool> complete = progress_->AddEvaluation(report, clock_());
  if (!complete.ok()) return complete.status();
  if (*complete) {
    CoordinatorOrder order;
    order.mutable_evaluated()->set_version(report.version());
    for (const auto& [incarnation, member] : membership_.members()) {
      if (member.opened) member.link->Send(order);
    }
    FlushMetrics();
    RunCheckpoints();
  }
  return absl::OkStatus();
}

void Coordinator::OnFailure(const Member& member, const Failure& failure) {
  const std::string reason =
      absl::StrCat(member.Name(), " failed: ", failure.message());
  if (!member.ready) {
    // It cannot open the data, or build the model. Where nobody can, that is
    // the job's fault; where others may, its machine's.
    RefuseWorker(member.incarnation, absl::AbortedError(reason),
                 failure.message());
    if (phase_ != StatusReply::WAITING) return;
    if (membership_.count() == 0 && quorum_.all_refused()) {
      FailLocked(ReportedError(failure, reason), failure.exit_code());
    } else if (AdoptIfDue().ok()) {
      StartIfDue();
    }
  } else if (phase_ == StatusReply::WAITING || membership_.count() == 1) {
    FailLocked(ReportedError(failure, reason), failure.exit_code());
  } else {
    RemoveWorker(member.incarnation, absl::AbortedError(reason));
  }
}

void Coordinator::WorkerGone(int64_t incarnation) {
  absl::MutexLock lock(&mu_);
  RemoveWorker(incarnation, absl::OkStatus());
}

void Coordinator::RemoveWorker(int64_t incarnation,
                               const absl::Status& status) {
  const Member* const member = membership_.Find(incarnation);
  if (member == nullptr) return;
  if (!status.ok()) member->link->Close(status);
  const std::string name = member->Name();
  membership_.Remove(incarnation);
  Forget(incarnation);
  if (membership_.count() == 0) alone_since_ = clock_();
  if (phase_ == StatusReply::TRAINING) {
    ++workers_lost_;
    OnWorkerLost(incarnation, name);
  }
}

void Coordinator::OnWorkerLost(int64_t incarnation, const std::string& name) {
  if (group_.Has(incarnation)) {
    GoBack(Ending::kGoesBack,
           absl::UnavailableError(absl::StrCat(
               name, " is gone, and an all-reduce needs all of its members")));
  } else {
    AssignWork();
  }
}

void Coordinator::OrderSnapshot(const ServerOrder& order) {
  if (!all_reduce_) {
    servers_.Send(order);
    return;
  }
  // The last version is brought in any case.
  group_.OrderSave(order.snapshot(), /*asks=*/order.snapshot().version() !=
                                         progress_->final_version());
}

void Coordinator::RemoveWorkers(const absl::Status& status) {
  while (membership_.count() > 0) {
    RemoveWorker(membership_.members().begin()->first, status);
  }
}

void Coordinator::Forget(int64_t incarnation) {
  if (progress_.has_value()) progress_->breakdown()->Forget(incarnation);
  if (step_leases_.has_value()) step_leases_->Remove(incarnation);
  quorum_.Remove(incarnation);
  if (initializer_ == incarnation) {
    initializer_ = 0;
    if (!initialized_) OpenWaiting();
  }
}

absl::Status Coordinator::AddServer(const Enlist& enlist, ServerLink* link) {
  TRIBUTARY_RETURN_IF_ERROR(CheckProtocol(enlist.protocol_version()));
  absl::MutexLock lock(&mu_);
  // Whoever comes too late for an attempt must not be told that the job is
  // done.
  if (phase_ == StatusReply::FAILED) return JobFailed(failure_);
  if (phase_ == StatusReply::RECOVERING) return JoinAgain(failure_);
  TRIBUTARY_RETURN_IF_ERROR(servers_.Add(enlist, link, clock_()));
  if (Complete() && servers_.all_there()) FinishComplete();
  AdmitWaiting();
  return absl::OkStatus();
}

bool Coordinator::Complete() const {
  return options_.resume.has_value() && options_.resume->manifest.complete();
}

void Coordinator::FinishComplete() {
  if (phase_ != StatusReply::WAITING) return;
  const ResumePoint& resume = *options_.resume;
  absl::StatusOr<ArenaLayout> layout =
      ArenaLayout::Create(resume.manifest.table());
  if (!layout.ok()) {
    FailLocked(layout.status(), /*exit_code=*/1);
    return;
  }
  Beginning beginning;
  beginning.step = resume.manifest.step();
  beginning.job_state = resume.manifest.job_state();
  beginning.checkpoint = resume.folder;
  if (options_.on_begin) options_.on_begin(beginning);
  layout_ = *std::move(layout);
  phase_ = StatusReply::FINISHING;
  RemoveWorkers(absl::OutOfRangeError("the job is done"));
  DataFacts facts;
  facts.set_steps(resume.manifest.step());
  facts.set_steps_per_epoch(1);
  progress_.emplace(options_.job, facts, /*chunks=*/1, options_.servers);
  progress_->Resume(resume.manifest.version(), resume.manifest.job_state());
  progress_->Begin(clock_());
}

absl::Status Coordinator::OnServerReport(int shard,
                                         const ServerReport& report) {
  absl::MutexLock lock(&mu_);
  servers_.SetHeard(shard, clock_());
  switch (report.report_case()) {
    case ServerReport::kConfigured:
      // What ends with an attempt may still say so.
      if (phase_ != StatusReply::WAITING) return absl::OkStatus();
      servers_.SetConfigured(shard);
      if (replicates_ && servers_.all_configured()) {
        const auto order = [this](int other) ABSL_SHARED_LOCKS_REQUIRED(mu_) {
          return ReplicateOrder(servers_.servers(), other);
        };
        servers_.SendEach(order);
      }
      OpenWaiting();
      return absl::OkStatus();
    case ServerReport::kReplicated:
      if (phase_ != StatusReply::WAITING) return absl::OkStatus();
      servers_.SetReplicated(shard);
      OpenWaiting();
      return absl::OkStatus();
    case ServerReport::kReplicationFailure:
      if (phase_ == StatusReply::WAITING) memory_failed_ = from_memory_;
      // At the end the others may be gone first.
      if (phase_ == StatusReply::WAITING || phase_ == StatusReply::TRAINING) {
        GoBack(
            Ending::kGoesBack,
            absl::UnavailableError(absl::StrCat(
                "server ", shard, " cannot have its state kept, or read it: ",
                report.replication_failure().message())));
      }
      return absl::OkStatus();
    case ServerReport::kSums:
      return OnSums(shard, report.sums());
    case ServerReport::kSnapshot:
      if (!checkpoints_.has_value()) {
        return absl::FailedPreconditionError("a snapshot before the table");
      }
      checkpoints_->plan()->OnReport(shard, report.snapshot());
      RunCheckpoints();
      return absl::OkStatus();
    case ServerReport::kHeartbeat:
      servers_.SetVersion(shard, report.heartbeat().version());
      return absl::OkStatus();
    case ServerReport::kLeaving:
      OnLeaving(shard);
      return absl::OkStatus();
    case ServerReport::kFailure:
      if (report.failure().checkpoint_damaged()) {
        GoBack(Ending::kDamaged,
               absl::DataLossError(absl::StrCat("server ", shard, ": ",
                                                report.failure().message())));
        return absl::OkStatus();
      }
      FailLocked(ReportedError(report.failure(),
                               absl::StrCat("server ", shard, " failed: ",
                                            report.failure().message())),
                 report.failure().exit_code());
      return absl::OkStatus();
    case ServerReport::kFarewell:
      finished_.push_back({"server", shard, report.farewell().statistics()});
      return absl::OkStatus();
    case ServerReport::kEnlist:
    case ServerReport::REPORT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected report from a server");
}

absl::Status Coordinator::OnSums(int shard, const StepSums& sums) {
  // Servers go on until they hear that it is over.
  if (EndingLocked() != Ending::kNone) return absl::OkStatus();
  if (phase_ != StatusReply::TRAINING) {
    return absl::FailedPreconditionError("step sums outside of training");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::optional<GradientNorm> norm,
                             progress_->AddSums(shard, sums, clock_()));
  if (!norm.has_value()) return absl::OkStatus();
  if (step_leases_.has_value()) step_leases_->Complete(sums.step());
  if (const auto gradient = progress_->TakeNonfinite()) {
    OnNonfinite(*gradient);
    if (phase_ != StatusReply::TRAINING) return absl::OkStatus();
  }
  if (gives_norms_) {
    ServerOrder order;
    *order.mutable_norm() = *norm;
    if (replicates_)
      *order.mutable_norm()->mutable_job_state() = progress_->Save();
    servers_.Send(order);
  }
  FlushMetrics();
  checkpoints_->OnRound(*progress_);
  RunCheckpoints();
  return absl::OkStatus();
}

void Coordinator::OnNonfinite(const JobProgress::NonfiniteGradient& gradient) {
  if (options_.job.on_nonfinite() == JobSpec::SKIP) {
    metrics_(SkippedStepLine(gradient, *layout_, membership_));
  } else {
    FailLocked(NonfiniteError(gradient, *layout_, membership_),
               /*exit_code=*/1);
  }
}

void Coordinator::RunCheckpoints() {
  if (!checkpoints_.has_value() || phase_ != StatusReply::TRAINING) return;
  checkpoints_->Run(
      *progress_, step_leases_.has_value() ? step_leases_->next() : 0,
      [this](const ServerOrder& order)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { OrderSnapshot(order); });
  if (const auto kept = group_.TakeKept(progress_->round())) {
    servers_.Send(*kept);
  }
  GrantStepLeases();
  FinishIfDue();
  if (draining_ && phase_ == StatusReply::TRAINING &&
      checkpoints_->plan()->over()) {
    phase_ = StatusReply::DRAINED;
  }
  if (leaving_.has_value() && phase_ == StatusReply::TRAINING &&
      !checkpoints_->plan()->soon()) {
    LetServerLeave();
  }
}

void Coordinator::RunCheckpointsAtRest() {
  if (phase_ != StatusReply::TRAINING || membership_.synced_count() > 0) return;
  checkpoints_->plan()->Rest(
      progress_->round(), step_leases_.has_value() ? step_leases_->next() : 0,
      progress_->finished());
  RunCheckpoints();
}

void Coordinator::OnLeaving(int shard) {
  if (phase_ != StatusReply::WAITING && phase_ != StatusReply::TRAINING) return;
  leaving_ = shard;
  if (checkpoints_.has_value()) checkpoints_->plan()->TakeSoon();
  if (phase_ == StatusReply::WAITING) {
    LetServerLeave();
  } else {
    RunCheckpoints();
  }
}

void Coordinator::LetServerLeave() {
  GoBack(Ending::kGoesBack,
         absl::UnavailableError(absl::StrCat(
             "server ", *leaving_, " (", servers_.servers()[*leaving_].address,
             ") leaves: it was asked to stop")));
}

void Coordinator::OnCheckpointFolder(
    const absl::StatusOr<std::string>& folder) {
  absl::MutexLock lock(&mu_);
  if (!checkpoints_.has_value()) return;
  checkpoints_->plan()->OnFolder(folder);
  RunCheckpoints();
}

void Coordinator::OnCheckpointCommitted(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (!checkpoints_.has_value()) return;
  checkpoints_->plan()->OnCommitted(status);
  RunCheckpoints();
  if (status.ok()) WidenGroup();
}

void Coordinator::WidenGroup() {
  if (phase_ != StatusReply::TRAINING || !group_.begun() ||
      checkpoints_->plan()->over()) {
    return;
  }
  const int places =
      std::min(membership_.synced_count(),
               static_cast<int>(options_.job.batch().micro_batches()));
  if (places <= group_.size()) return;
  GoBack(Ending::kGoesBack, absl::UnavailableError(absl::StrCat(
                                "the all-reduce goes on with ", places,
                                " workers instead of ", group_.size())));
}

void Coordinator::Drain() {
  absl::MutexLock lock(&mu_);
  if (draining_) return;
  draining_ = true;
  if (phase_ == StatusReply::TRAINING) {
    checkpoints_->plan()->Drain();
    RunCheckpoints();
  } else if (phase_ == StatusReply::WAITING) {
    // Nothing has been done that could be lost.
    phase_ = StatusReply::DRAINED;
  }
}

void Coordinator::FlushMetrics() {
  for (const auto& line : progress_->TakeMetrics()) metrics_(line);
}

void Coordinator::FinishIfDue() {
  // As long as the last checkpoint is being written nobody may leave: with a
  // server lost now, workers would be needed again.
  if (phase_ != StatusReply::TRAINING || !progress_->finished() ||
      !checkpoints_->plan()->over() ||
      (all_reduce_ && !group_.Kept(progress_->final_version()))) {
    return;
  }
  phase_ = StatusReply::FINISHING;
  finishing_since_ = clock_();
  CoordinatorOrder order;
  order.mutable_finished()->set_version(progress_->final_version());
  for (const auto& [incarnation, member] : membership_.members()) {
    member.link->Send(order);
  }
}

void Coordinator::ServerGone(int shard) {
  absl::MutexLock lock(&mu_);
  if (!servers_.Remove(shard)) return;
  if (phase_ == StatusReply::DONE || phase_ == StatusReply::DRAINED) return;
  const absl::Status reason = absl::UnavailableError(
      absl::StrCat("server ", shard, " (", servers_.servers()[shard].address,
                   ") is gone, and its part of the state with it"));
  // Another one has the model.
  if (phase_ == StatusReply::FINISHING && replicates_) return;
  if (phase_ == StatusReply::FINISHING && EndingLocked() == Ending::kNone &&
      !Complete() &&
      checkpoints_->plan()->committed() != progress_->final_version()) {
    // Workers have begun to leave: nobody would be there to compute it again.
    FailLocked(reason, /*exit_code=*/1);
    return;
  }
  GoBack(Ending::kGoesBack, reason);
}

void Coordinator::GoBack(Ending ending, const absl::Status& reason) {
  if (EndingLocked() == Ending::kNone) SendAway(ending, reason);
}

void Coordinator::SendAway(Ending ending, const absl::Status& reason) {
  phase_ = StatusReply::RECOVERING;
  gone_back_ = ending;
  failure_ = reason;
  workers_at_ending_ = membership_.count();
  membership_.Close(JoinAgain(reason));
  servers_.Close(JoinAgain(reason));
}

void Coordinator::Tick() {
  absl::MutexLock lock(&mu_);
  const absl::Time now = clock_();
  // While this process stood still (stopped, or starved) it heard nobody.
  const absl::Duration gap = now - last_tick_;
  if (gap > options_.lease / 4) {
    membership_.Forgive(gap);
    servers_.Forgive(gap);
  }
  last_tick_ = now;
  for (const int shard : servers_.Expired(now, options_.lease)) {
    const absl::Status reason = absl::DeadlineExceededError(absl::StrCat(
        "server ", shard, " was silent for longer than its lease of ",
        absl::FormatDuration(options_.lease)));
    servers_.servers()[shard].link->Close(JoinAgain(reason));
    GoBack(Ending::kGoesBack, reason);
  }
  // Those that are missing have no part in it any more.
  if (Complete() && now - servers_missing_since_ > kFarewellTimeout) {
    FinishComplete();
  }
  if (servers_.all_there()) {
    servers_missing_since_ = now;
  } else if (phase_ == StatusReply::WAITING &&
             now - servers_missing_since_ > options_.no_server_timeout) {
    FailLocked(absl::DeadlineExceededError(absl::StrCat(
                   "server ", servers_.FirstMissing(), " has not come within ",
                   absl::FormatDuration(options_.no_server_timeout),
                   ": start it with `tributary server --shard ",
                   servers_.FirstMissing(), " --servers ", options_.servers,
                   " --coordinator HOST:PORT`")),
               /*exit_code=*/1);
  }
  for (const int64_t incarnation : membership_.Expired(now)) {
    const Member* member = membership_.Find(incarnation);
    RemoveWorker(incarnation, absl::DeadlineExceededError(absl::StrCat(
                                  member->Name(),
                                  " was silent for longer than its lease of ",
                                  absl::FormatDuration(options_.lease))));
  }
  AdoptIfDue().IgnoreError();  // It has failed the job.
  StartIfDue();
  RunCheckpointsAtRest();
  EndStall(now);
  if (phase_ == StatusReply::FINISHING &&
      now - finishing_since_ > kFarewellTimeout) {
    RemoveWorkers(absl::DeadlineExceededError("the job is done"));
  }
  if ((phase_ == StatusReply::WAITING || phase_ == StatusReply::TRAINING) &&
      now - alone_since_ > options_.no_worker_timeout) {
    FailLocked(
        absl::DeadlineExceededError(absl::StrCat(
            "no worker for ", absl::FormatDuration(options_.no_worker_timeout),
            ": start some with `tributary worker --coordinator "
            "HOST:PORT`",
            last_refusal_.empty() ? "" : absl::StrCat("; ", last_refusal_))),
        /*exit_code=*/1);
  }
}

void Coordinator::Fail(const absl::Status& reason) {
  absl::MutexLock lock(&mu_);
  FailLocked(reason, /*exit_code=*/1);
}

void Coordinator::Overtaken(const absl::Status& reason) {
  absl::MutexLock lock(&mu_);
  if (phase_ == StatusReply::FAILED || phase_ == StatusReply::DONE ||
      phase_ == StatusReply::DRAINED || phase_ == StatusReply::RECOVERING) {
    return;
  }
  SendAway(Ending::kFailed, reason);
}

void Coordinator::FailLocked(const absl::Status& reason, int exit_code) {
  if (phase_ == StatusReply::FAILED || phase_ == StatusReply::DONE ||
      phase_ == StatusReply::DRAINED) {
    return;
  }
  phase_ = StatusReply::FAILED;
  failure_ = reason;
  failure_exit_code_ = exit_code;
  const absl::Status told = JobFailed(reason);
  membership_.Close(told);
  servers_.Close(told);
}

Coordinator::Ending Coordinator::EndingLocked() const {
  switch (phase_) {
    case StatusReply::FAILED:
      return Ending::kFailed;
    case StatusReply::RECOVERING:
      return gone_back_;
    case StatusReply::DRAINED:
      return Ending::kDrained;
    case StatusReply::FINISHING:
      return membership_.count() == 0 ? Ending::kTrained : Ending::kNone;
    default:
      return Ending::kNone;
  }
}

Coordinator::Ending Coordinator::AwaitEnding(absl::Duration timeout) {
  const auto over = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return EndingLocked() != Ending::kNone;
  };
  absl::MutexLock lock(&mu_);
  AwaitFor(&mu_, absl::Condition(&over), timeout);
  return EndingLocked();
}

bool Coordinator::memory_failed() const {
  absl::MutexLock lock(&mu_);
  return memory_failed_;
}

std::optional<DataFacts> Coordinator::data() const {
  absl::MutexLock lock(&mu_);
  if (first_synced_ == absl::InfiniteFuture()) return std::nullopt;
  return progress_->facts();
}

bool Coordinator::has_trained() const {
  absl::MutexLock lock(&mu_);
  return first_synced_ != absl::InfiniteFuture();
}

int Coordinator::workers_at_ending() const {
  absl::MutexLock lock(&mu_);
  return workers_at_ending_;
}

void Coordinator::FinishServers() {
  absl::MutexLock lock(&mu_);
  // A job that has failed stays so, for workers that come late.
  if (phase_ == StatusReply::FINISHING) phase_ = StatusReply::DONE;
  if (phase_ == StatusReply::DRAINED) {
    CoordinatorOrder stopped;
    stopped.mutable_finished()->set_stopped(true);
    for (const auto& [incarnation, member] : membership_.members()) {
      member.link->Send(stopped);
    }
    membership_.Close(
        absl::FailedPreconditionError("the job was stopped by request"));
  }
  ServerOrder order;
  order.mutable_finish()->set_stopped(phase_ == StatusReply::DRAINED);
  servers_.Send(order);
}

bool Coordinator::AwaitServersGone(absl::Duration timeout) {
  const auto gone = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return servers_.none_there();
  };
  absl::MutexLock lock(&mu_);
  return AwaitFor(&mu_, absl::Condition(&gone), timeout);
}

absl::Status Coordinator::status() const {
  absl::MutexLock lock(&mu_);
  return failure_;
}

std::vector<std::string> Coordinator::server_addresses() const {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> addresses;
  for (const ServerRoster::Server& server : servers_.servers()) {
    addresses.push_back(server.address);
  }
  return addresses;
}

std::string Coordinator::complete_checkpoint() const {
  return Complete() ? options_.resume->folder : "";
}

CheckpointManifest Coordinator::FinalManifest() const {
  absl::MutexLock lock(&mu_);
  return Complete() ? options_.resume->manifest
                    : checkpoints_->FinalManifest(*progress_);
}

std::optional<ArenaLayout> Coordinator::layout() const {
  absl::MutexLock lock(&mu_);
  return layout_;
}

int64_t Coordinator::final_version() const {
  absl::MutexLock lock(&mu_);
  return progress_.has_value() ? progress_->final_version() : 0;
}

StatusReply Coordinator::GetStatus() const {
  absl::MutexLock lock(&mu_);
  return DescribeJob(
      {servers_, membership_, progress_.has_value() ? &*progress_ : nullptr,
       checkpoints_.has_value() ? &*checkpoints_ : nullptr, phase_,
       options_.attempt, failure_, failure_exit_code_, clock_()});
}

void Coordinator::EndStall(absl::Time now) {
  if (phase_ != StatusReply::TRAINING || !progress_->measured()) return;
  const absl::Duration stalled = progress_->Stalled(now);
  if (stalled < options_.stall_timeout ||
      now - stall_ended_ < options_.stall_timeout) {
    return;
  }
  for (const auto& [incarnation, member] : membership_.members()) {
    if (member.heartbeat.phase() == "evaluate") return;
  }
  stall_ended_ = now;
  const std::string step = absl::StrCat(
      "step ", progress_->completed_steps() + 1, " has not ended for ",
      absl::FormatDuration(absl::Trunc(stalled, absl::Seconds(1))));
  const Member* const straggler = membership_.Straggler(progress_->round());
  if (straggler != nullptr && membership_.synced_count() > 1) {
    RemoveWorker(straggler->incarnation,
                 absl::DeadlineExceededError(absl::StrCat(
                     step, ": the others wait for ", straggler->Name(), ", ",
                     straggler->heartbeat.phase())));
  } else {
    GoBack(Ending::kGoesBack, absl::DeadlineExceededError(
                                  absl::StrCat(step, ", and nobody says why")));
  }
}

nlohmann::ordered_json Coordinator::Summary() const {
  absl::MutexLock lock(&mu_);
  RunFacts facts;
  facts.job = &options_.job;
  facts.failure = failure_;
  facts.stopped = phase_ == StatusReply::DRAINED;
  facts.attempt = options_.attempt;
  if (checkpoints_.has_value()) {
    facts.checkpoint_failures = checkpoints_->plan().failures();
  }
  if (progress_.has_value()) facts.skipped_steps = progress_->skipped_rounds();
  facts.progress = progress_.has_value() ? &*progress_ : nullptr;
  facts.parameters = layout_.has_value() ? layout_->parameter_count() : 0;
  facts.workers = most_workers_;
  facts.workers_lost = workers_lost_;
  facts.reassignments_by_speed = reassignments_by_speed_;
  facts.servers = options_.servers;
  facts.processes = finished_;
  return SummaryJson(facts);
}

}  // namespace tributary
