#include "server/coordinator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/failpoint.h"
#include "common/job.h"
#include "common/rounds.h"
#include "common/status_macros.h"
#include "server/peer_checks.h"

namespace tributary {
namespace {

// Workers that do not answer Finished are given up after this.
constexpr absl::Duration kFarewellTimeout = absl::Seconds(10);

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
      job_id_(JobId(options.job)),
      asynchronous_(options.job.exchange()
                        .parameter_server()
                        .consistency()
                        .has_asynchronous()),
      gives_norms_((JobOfRounds(options.job).clip_norm() > 0 ||
                    options.job.on_nonfinite() == JobSpec::SKIP) &&
                   !asynchronous_),
      clock_(std::move(clock)),
      metrics_(std::move(metrics)),
      membership_(static_cast<int>(options.job.batch().micro_batches()),
                  options.lease),
      servers_(options.servers) {
  alone_since_ = servers_missing_since_ = last_tick_ = clock_();
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
  if (static_cast<int>(workers_.size()) >= options_.max_workers) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the job has ", workers_.size(),
        " workers, as many as its server allows: start that with a higher "
        "--workers for more"));
  }
  const Membership::Admitted admitted = membership_.Add(join, clock_());
  if (admitted.fenced.has_value()) {
    const auto old = workers_.find(*admitted.fenced);
    if (old != workers_.end()) {
      old->second.link->Close(absl::FailedPreconditionError(absl::StrCat(
          "rank ", admitted.rank, " was taken over by a newer process (host ",
          join.host(), ", process ", join.pid(),
          "): give each worker a rank of its own, or none")));
      workers_.erase(old);
    }
    if (initializer_ == *admitted.fenced) initializer_ = 0;
    if (progress_.has_value()) progress_->breakdown()->Forget(*admitted.fenced);
    if (claims_.has_value()) claims_->Remove(*admitted.fenced);
    if (phase_ == StatusReply::TRAINING) DealWork();
  }
  workers_[admitted.incarnation].link = link;
  most_workers_ = std::max(most_workers_, static_cast<int>(workers_.size()));
  alone_since_ = absl::InfiniteFuture();
  AdmitWaiting();
  return admitted.incarnation;
}

void Coordinator::AdmitWaiting() {
  if (!servers_.all_there()) return;
  for (auto& [incarnation, worker] : workers_) {
    const Member* member = membership_.Find(incarnation);
    if (worker.admitted || member == nullptr) continue;
    worker.admitted = true;
    CoordinatorOrder order;
    Admission* admission = order.mutable_admission();
    *admission->mutable_job() = options_.job;
    admission->set_rank(member->rank);
    admission->set_incarnation(incarnation);
    for (const ServerRoster::Server& server : servers_.servers()) {
      admission->add_server_address(server.address);
      *admission->add_local_address() = server.local_address;
    }
    admission->set_job_id(job_id_);
    admission->set_lease_ms(absl::ToInt64Milliseconds(options_.lease));
    admission->set_attempt(options_.attempt);
    worker.link->Send(order);
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
      return OnReady(incarnation, report.ready());
    case WorkerReport::kSynced:
      if (!workers_[incarnation].opened) {
        return absl::FailedPreconditionError("Synced before Open");
      }
      if (!member->synced) {
        member->synced = true;
        initialized_ = true;
        first_synced_ = std::min(first_synced_, clock_());
        if (phase_ == StatusReply::WAITING) {
          StartIfDue();
        } else if (phase_ == StatusReply::TRAINING) {
          DealWork();
        }
      }
      return absl::OkStatus();
    case WorkerReport::kHeartbeat:
      OnHeartbeat(member, report.heartbeat());
      return absl::OkStatus();
    case WorkerReport::kClaim:
      if (!claims_.has_value() || !member->synced) {
        return absl::FailedPreconditionError(
            "a claim before Synced, or not in asynchronous mode");
      }
      if (!claims_->Want(incarnation)) {
        return absl::ResourceExhaustedError(
            "claims more steps than it can compute");
      }
      GrantClaims();
      return absl::OkStatus();
    case WorkerReport::kEvaluation:
      return OnEvaluation(report.evaluation());
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
  if (phase_ == StatusReply::TRAINING && membership_.DealIsSlow(clock_())) {
    ++deals_by_speed_;
    DealWork();
  }
}

absl::Status Coordinator::OnReady(int64_t incarnation, const Ready& ready) {
  // Before, there are servers missing that would have to be told.
  if (!workers_[incarnation].admitted) {
    return absl::FailedPreconditionError("Ready before Admission");
  }
  if (!layout_.has_value()) {
    TRIBUTARY_RETURN_IF_ERROR(Adopt(ready));
  } else {
    TRIBUTARY_RETURN_IF_ERROR(CheckModel(ready.table(), *layout_));
    TRIBUTARY_RETURN_IF_ERROR(CheckData(ready.data(), progress_->facts()));
  }
  workers_[incarnation].ready = true;
  OpenWaiting();
  return absl::OkStatus();
}

absl::Status Coordinator::Adopt(const Ready& ready) {
  absl::StatusOr<ArenaLayout> layout = ArenaLayout::Create(ready.table());
  if (!layout.ok()) return layout.status();
  if (ready.data().steps() < 1 || ready.data().steps_per_epoch() < 1) {
    return absl::InvalidArgumentError("a job needs at least one step");
  }
  int64_t first = 0;
  if (options_.resume.has_value()) {
    const ResumePoint& resume = *options_.resume;
    first = resume.manifest.version();
    const absl::Status fits = CheckResume(resume.manifest, ready, options_.job);
    if (!fits.ok()) {
      FailLocked(fits, /*exit_code=*/2);
      return fits;
    }
  }
  layout_ = *std::move(layout);
  table_ = ready.table();
  progress_.emplace(options_.job, ready.data(), layout_->chunk_count(),
                    options_.servers);
  if (options_.resume.has_value()) {
    progress_->Resume(first, options_.resume->manifest.job_state());
    initialized_ = true;
  }
  if (asynchronous_) claims_.emplace(/*limit=*/0, first);
  CheckpointPlan::Options plan;
  const Rounds rounds(options_.job, ready.data().steps());
  plan.every = options_.checkpoints == nullptr
                   ? 0
                   : rounds.RoundsFor(options_.job.checkpoint().every_steps());
  plan.last = rounds.count();
  plan.servers = options_.servers;
  plan.first = first;
  plan_.emplace(plan);
  ServerOrder order;
  Configure* configure = order.mutable_configure();
  *configure->mutable_job() = options_.job;
  *configure->mutable_table() = ready.table();
  configure->set_servers(options_.servers);
  configure->set_job_id(job_id_);
  configure->set_steps(ready.data().steps());
  configure->set_attempt(options_.attempt);
  if (options_.resume.has_value()) {
    configure->set_checkpoint(options_.resume->folder);
  }
  servers_.Send(order);
  return absl::OkStatus();
}

void Coordinator::OpenWaiting() {
  if (!servers_.all_configured()) return;
  for (auto& [incarnation, worker] : workers_) {
    if (!worker.ready) continue;
    const bool initialize = !initialized_ && initializer_ == 0;
    if (worker.opened && !initialize) continue;
    if (initialize) initializer_ = incarnation;
    worker.opened = true;
    CoordinatorOrder order;
    order.mutable_open()->set_initialize(initialize);
    worker.link->Send(order);
  }
}

void Coordinator::StartIfDue() {
  if (phase_ != StatusReply::WAITING || membership_.synced_count() == 0) return;
  if (membership_.synced_count() < options_.expected_workers &&
      clock_() - first_synced_ < options_.start_timeout) {
    return;
  }
  phase_ = StatusReply::TRAINING;
  progress_->Begin(clock_());
  DealWork();
  RunPlan();
}

void Coordinator::DealWork() {
  const auto deals =
      membership_.DealWork(progress_->facts().evaluation_pieces(), clock_());
  for (const auto& [incarnation, deal] : deals) {
    CoordinatorOrder order;
    *order.mutable_deal() = deal;
    order.mutable_deal()->set_evaluated_version(progress_->evaluated_version());
    workers_[incarnation].link->Send(order);
    progress_->breakdown()->Introduce(incarnation,
                                      membership_.Find(incarnation)->rank);
  }
  GrantClaims();
}

void Coordinator::GrantClaims() {
  if (!claims_.has_value() || phase_ != StatusReply::TRAINING) return;
  int64_t limit = progress_->NextEvaluation();
  // Every chunk is to come by the checkpoint's version with the same steps.
  if (plan_->version() >= 0 && !plan_->taken()) {
    limit = std::min(limit, plan_->version());
  }
  claims_->SetLimit(limit);
  for (const auto& [incarnation, step] : claims_->Grant()) {
    CoordinatorOrder order;
    order.mutable_claimed()->set_step(step);
    workers_[incarnation].link->Send(order);
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
    for (auto& [incarnation, worker] : workers_) {
      if (worker.opened) worker.link->Send(order);
    }
    FlushMetrics();
    RunPlan();
  }
  return absl::OkStatus();
}

void Coordinator::OnFailure(const Member& member, const Failure& failure) {
  const std::string reason =
      absl::StrCat(member.Name(), " failed: ", failure.message());
  // What one worker cannot do before the start (open the data, build the model)
  // is the job's fault more often than the machine's.
  if (phase_ == StatusReply::WAITING || workers_.size() == 1) {
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
  const auto found = workers_.find(incarnation);
  if (found == workers_.end()) return;
  if (!status.ok()) found->second.link->Close(status);
  workers_.erase(found);
  membership_.Remove(incarnation);
  if (progress_.has_value()) progress_->breakdown()->Forget(incarnation);
  if (claims_.has_value()) claims_->Remove(incarnation);
  if (initializer_ == incarnation) {
    initializer_ = 0;
    if (!initialized_) OpenWaiting();
  }
  if (workers_.empty()) alone_since_ = clock_();
  if (phase_ == StatusReply::TRAINING) {
    ++workers_lost_;
    DealWork();
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
  layout_ = *std::move(layout);
  phase_ = StatusReply::FINISHING;
  while (!workers_.empty()) {
    RemoveWorker(workers_.begin()->first,
                 absl::OutOfRangeError("the job is done"));
  }
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
      servers_.SetConfigured(shard);
      OpenWaiting();
      return absl::OkStatus();
    case ServerReport::kSums:
      return OnSums(shard, report.sums());
    case ServerReport::kSnapshot:
      if (!plan_.has_value()) {
        return absl::FailedPreconditionError("a snapshot before the table");
      }
      plan_->OnReport(shard, report.snapshot());
      RunPlan();
      return absl::OkStatus();
    case ServerReport::kHeartbeat:
      servers_.SetVersion(shard, report.heartbeat().version());
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
  if (claims_.has_value()) claims_->Complete(sums.step());
  if (const auto gradient = progress_->TakeNonfinite()) {
    OnNonfinite(*gradient);
    if (phase_ != StatusReply::TRAINING) return absl::OkStatus();
  }
  if (gives_norms_) {
    ServerOrder order;
    *order.mutable_norm() = *norm;
    servers_.Send(order);
  }
  FlushMetrics();
  if (plan_->version() == progress_->round()) saved_ = progress_->Save();
  RunPlan();
  return absl::OkStatus();
}

void Coordinator::OnNonfinite(const JobProgress::NonfiniteGradient& gradient) {
  const int64_t element =
      layout_->ChunkBegin(gradient.place.chunk()) + gradient.place.element();
  const Parameter* parameter = &layout_->parameters().front();
  for (const Parameter& candidate : layout_->parameters()) {
    if (candidate.offset <= element) parameter = &candidate;
  }
  const Member* const member = membership_.Find(gradient.place.contributor());
  const std::string whose = gradient.place.contributor() == 0
                                ? "the sum over all workers"
                            : member == nullptr ? "a worker that has left"
                                                : member->Name();
  if (options_.job.on_nonfinite() == JobSpec::SKIP) {
    nlohmann::ordered_json line = {{"step", gradient.step + 1},
                                   {"skipped", "gradient is not finite"},
                                   {"parameter", parameter->name}};
    if (member != nullptr) line["worker"] = member->rank;
    metrics_(line);
    return;
  }
  FailLocked(absl::AbortedError(absl::StrCat(
                 "step ", gradient.step + 1, ": the gradient of ",
                 parameter->name, " is not finite, from ", whose,
                 ": lower the learning rate, set clip_norm, or look at the "
                 "data; on_nonfinite: SKIP leaves such steps out")),
             /*exit_code=*/1);
}

void Coordinator::RunPlan() {
  if (!plan_.has_value() || phase_ != StatusReply::TRAINING) return;
  const Rounds rounds(options_.job, progress_->facts().steps());
  const int64_t completed = progress_->round();
  const int64_t earliest = claims_.has_value() ? claims_->next() : 0;
  CheckpointSink* const sink = options_.checkpoints;
  while (auto action =
             plan_->Next(completed, earliest, progress_->finished())) {
    if (const auto* begin = std::get_if<CheckpointPlan::MakeFolder>(&*action)) {
      if (begin->version == completed) saved_ = progress_->Save();
      sink->MakeFolder(rounds.StepsAfter(begin->version));
    } else if (const auto* order =
                   std::get_if<CheckpointPlan::OrderSnapshots>(&*action)) {
      ServerOrder message;
      message.mutable_snapshot()->set_version(order->version);
      message.mutable_snapshot()->set_folder(order->folder);
      servers_.Send(message);
    } else if (const auto* commit =
                   std::get_if<CheckpointPlan::Commit>(&*action)) {
      sink->Commit(commit->folder, MakeManifest(*commit));
    } else if (const auto* discard =
                   std::get_if<CheckpointPlan::Discard>(&*action)) {
      sink->Discard(discard->folder);
    } else {
      const auto& warn = std::get<CheckpointPlan::Warn>(*action);
      sink->Warn(rounds.StepsAfter(warn.version), warn.message);
    }
  }
  GrantClaims();
  FinishIfDue();
  if (draining_ && phase_ == StatusReply::TRAINING && plan_->over()) {
    phase_ = StatusReply::DRAINED;
  }
}

CheckpointManifest Coordinator::MakeManifest(
    const CheckpointPlan::Commit& commit) const {
  CheckpointManifest manifest;
  manifest.set_format(1);
  manifest.set_version(commit.version);
  manifest.set_step(Rounds(options_.job, progress_->facts().steps())
                        .StepsAfter(commit.version));
  manifest.set_job(PrintJob(options_.job));
  *manifest.mutable_table() = table_;
  manifest.set_signature(layout_->signature());
  manifest.set_servers(options_.servers);
  for (const std::string& name : StateNames(options_.job)) {
    manifest.add_state(name);
  }
  for (const CheckpointFile& file : commit.files) *manifest.add_file() = file;
  *manifest.mutable_job_state() = saved_;
  // An earlier one may be committed when all is computed already.
  if (commit.version == progress_->final_version() && progress_->finished()) {
    *manifest.mutable_job_state() = progress_->Save();
    manifest.set_complete(true);
  }
  return manifest;
}

void Coordinator::OnCheckpointFolder(
    const absl::StatusOr<std::string>& folder) {
  absl::MutexLock lock(&mu_);
  if (!plan_.has_value()) return;
  plan_->OnFolder(folder);
  RunPlan();
}

void Coordinator::OnCheckpointCommitted(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (!plan_.has_value()) return;
  plan_->OnCommitted(status);
  RunPlan();
}

void Coordinator::Drain() {
  absl::MutexLock lock(&mu_);
  if (draining_) return;
  draining_ = true;
  if (phase_ == StatusReply::TRAINING) {
    plan_->Drain();
    RunPlan();
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
      !plan_->over()) {
    return;
  }
  phase_ = StatusReply::FINISHING;
  finishing_since_ = clock_();
  CoordinatorOrder order;
  order.mutable_finished()->set_version(progress_->final_version());
  for (auto& [incarnation, worker] : workers_) worker.link->Send(order);
}

void Coordinator::ServerGone(int shard) {
  absl::MutexLock lock(&mu_);
  if (!servers_.Remove(shard)) return;
  if (phase_ == StatusReply::DONE || phase_ == StatusReply::DRAINED) return;
  const absl::Status reason = absl::UnavailableError(
      absl::StrCat("server ", shard, " (", servers_.servers()[shard].address,
                   ") is gone, and its part of the state with it"));
  if (phase_ == StatusReply::FINISHING && EndingLocked() == Ending::kNone &&
      !Complete() && plan_->committed() != progress_->final_version()) {
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
  workers_at_ending_ = static_cast<int>(workers_.size());
  for (auto& [incarnation, worker] : workers_) {
    worker.link->Close(JoinAgain(reason));
  }
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
  StartIfDue();
  if (phase_ == StatusReply::FINISHING &&
      now - finishing_since_ > kFarewellTimeout) {
    while (!workers_.empty()) {
      RemoveWorker(workers_.begin()->first,
                   absl::DeadlineExceededError("the job is done"));
    }
  }
  if ((phase_ == StatusReply::WAITING || phase_ == StatusReply::TRAINING) &&
      now - alone_since_ > options_.no_worker_timeout) {
    FailLocked(
        absl::DeadlineExceededError(absl::StrCat(
            "no worker for ", absl::FormatDuration(options_.no_worker_timeout),
            ": start some with `tributary worker --coordinator "
            "HOST:PORT`")),
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
  for (auto& [incarnation, worker] : workers_) worker.link->Close(told);
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
      return workers_.empty() ? Ending::kTrained : Ending::kNone;
    default:
      return Ending::kNone;
  }
}

Coordinator::Ending Coordinator::AwaitEnding(absl::Duration timeout) {
  const auto over = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return EndingLocked() != Ending::kNone;
  };
  absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(&over), timeout);
  return EndingLocked();
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
    for (auto& [incarnation, worker] : workers_) {
      worker.link->Send(stopped);
      worker.link->Close(
          absl::FailedPreconditionError("the job was stopped by request"));
    }
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
  return mu_.AwaitWithTimeout(absl::Condition(&gone), timeout);
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
  StatusReply reply;
  reply.set_evaluation_version(-1);
  if (progress_.has_value()) progress_->FillStatus(&reply);
  reply.set_phase(phase_);
  reply.set_attempt(options_.attempt);
  reply.set_checkpoint_step(-1);
  if (plan_.has_value()) {
    if (plan_->committed() > 0) {
      reply.set_checkpoint_step(Rounds(options_.job, progress_->facts().steps())
                                    .StepsAfter(plan_->committed()));
    }
    reply.set_checkpoint_failures(plan_->failures());
    reply.set_checkpoint_failure(plan_->failure());
  }
  for (const auto& [incarnation, member] : membership_.members()) {
    if (member.heartbeat.phase() == "evaluate" &&
        phase_ == StatusReply::TRAINING) {
      reply.set_phase(StatusReply::EVALUATING);
    }
  }
  if (reply.phase() == StatusReply::TRAINING) FillStall(&reply);
  FillProcesses(&reply);
  reply.set_workers(static_cast<int>(workers_.size()));
  reply.set_servers(options_.servers);
  if (!failure_.ok()) {
    reply.set_failure(std::string(failure_.message()));
    reply.set_failure_exit_code(failure_exit_code_);
  }
  return reply;
}

void Coordinator::FillProcesses(StatusReply* reply) const {
  const absl::Time now = clock_();
  const int64_t round = progress_.has_value() ? progress_->round() : 0;
  const Member* const straggler =
      phase_ == StatusReply::TRAINING ? membership_.Straggler(round) : nullptr;
  const std::string whom = straggler == nullptr
                               ? std::string()
                               : absl::StrCat("worker ", straggler->rank, ": ",
                                              straggler->heartbeat.phase());
  const int missing = servers_.FirstMissing();
  for (size_t shard = 0; shard < servers_.servers().size(); ++shard) {
    const ServerRoster::Server& server = servers_.servers()[shard];
    ProcessStatus* const process = reply->add_process();
    process->set_role("server");
    process->set_number(static_cast<int>(shard));
    process->set_place(server.address);
    process->set_step(shard == 0 ? round : server.version);
    process->set_phase(server.link == nullptr ? "absent"
                       : server.configured    ? "ready"
                                              : "loading");
    process->set_silent_ms(
        shard == 0 ? -1 : absl::ToInt64Milliseconds(now - server.last_heard));
    if (server.link == nullptr) continue;
    if (missing >= 0) {
      process->set_waits_for(absl::StrCat("server ", missing));
    } else if (workers_.empty()) {
      process->set_waits_for("workers");
    } else {
      process->set_waits_for(whom);
    }
  }
  for (const auto& [incarnation, member] : membership_.members()) {
    ProcessStatus* const process = reply->add_process();
    process->set_role("worker");
    process->set_number(member.rank);
    process->set_place(absl::StrCat(member.host, ", process ", member.pid));
    process->set_step(member.heartbeat.step());
    process->set_phase(member.heartbeat.phase());
    process->set_silent_ms(absl::ToInt64Milliseconds(now - member.last_heard));
    if (missing >= 0) {
      process->set_waits_for(absl::StrCat("server ", missing));
    } else if (phase_ == StatusReply::WAITING && member.synced) {
      process->set_waits_for("other workers");
    } else if (member.synced && member.leaves == 0) {
      process->set_waits_for("leaves: it is a spare");
    } else if (&member != straggler && member.heartbeat.phase() == "exchange") {
      process->set_waits_for(whom);
    }
  }
}

void Coordinator::FillStall(StatusReply* reply) const {
  const absl::Duration taken = progress_->Stalled(clock_());
  if (taken == absl::ZeroDuration()) return;
  const Member* straggler = membership_.Straggler(progress_->round());
  if (straggler == nullptr) return;
  reply->set_waiting_rank(straggler->rank);
  reply->set_waiting_milliseconds(absl::ToDoubleMilliseconds(taken));
  reply->set_waiting_phase(straggler->heartbeat.phase());
}

nlohmann::ordered_json Coordinator::Summary() const {
  absl::MutexLock lock(&mu_);
  RunFacts facts;
  facts.job = &options_.job;
  facts.failure = failure_;
  facts.stopped = phase_ == StatusReply::DRAINED;
  facts.attempt = options_.attempt;
  if (plan_.has_value()) facts.checkpoint_failures = plan_->failures();
  if (progress_.has_value()) facts.skipped_steps = progress_->skipped_rounds();
  facts.progress = progress_.has_value() ? &*progress_ : nullptr;
  facts.parameters = layout_.has_value() ? layout_->parameter_count() : 0;
  facts.workers = most_workers_;
  facts.workers_lost = workers_lost_;
  facts.deals_by_speed = deals_by_speed_;
  facts.servers = options_.servers;
  facts.processes = finished_;
  return SummaryJson(facts);
}

}  // namespace tributary
