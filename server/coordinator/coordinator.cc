#include "server/coordinator/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "server/coordinator/job_status.h"
#include "server/coordinator/run_summary.h"
#include "server/membership/peer_checks.h"
#include "server/progress/job_metrics.h"

namespace tributary {
namespace {

// Expels the worker that `training` has found, if there is one.
void ExpelOffender(Training* training, AdmissionControl* admission) {
  if (const auto offender = training->TakeOffender()) {
    admission->Expel(offender->incarnation, offender->reason);
  }
}

// Returns the name of the worker in the trace: its role and its rank.
TracedName TracedNameOf(const Member& member) {
  return {"worker", member.rank, member.incarnation};
}

absl::Status CheckTraces(const JobSpec& job, const char* message) {
  if (job.output().has_trace()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(message, ", but the job traces no steps (output.trace)"));
}

ClockReading ReadClock(const ClockProbe& probe, absl::Time now) {
  ClockReading reading;
  reading.set_sent_ns(probe.sent_ns());
  reading.set_coordinator_ns(absl::ToUnixNanos(now));
  return reading;
}

}  // namespace

Coordinator::Coordinator(const Options& options, Clock clock,
                         MetricsSink metrics)
    : attempt_(options, std::move(clock)),
      assignment_(&attempt_),
      training_(&attempt_, &assignment_, std::move(metrics)),
      peers_(&attempt_, &assignment_,
             [this](int64_t incarnation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
               admission_.RemoveWorker(incarnation);
             }),
      admission_(&attempt_, &assignment_, &training_, &peers_),
      watchdog_(&attempt_, &assignment_, &training_, &peers_, &admission_) {}

absl::StatusOr<int64_t> Coordinator::AddWorker(const Join& join,
                                               WorkerLink* link) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S2"));
  absl::MutexLock lock(&mu_);
  const absl::Status speaks = CheckProtocol(join.protocol_version());
  const absl::StatusOr<int64_t> incarnation =
      speaks.ok() ? admission_.AddWorker(join, link) : speaks;
  if (!incarnation.ok()) {
    admission_.refusals().AddRefused(
        absl::StrCat("a worker (host ", join.host(), ", process ", join.pid(),
                     ")"),
        incarnation.status());
  }
  return incarnation;
}

absl::Status Coordinator::OnWorkerReport(int64_t incarnation,
                                         const WorkerReport& report) {
  absl::MutexLock lock(&mu_);
  Member* member = attempt_.membership.Find(incarnation);
  if (member == nullptr) {
    return absl::AbortedError(
        absl::StrCat("incarnation ", incarnation,
                     " is no longer a member: its lease expired, or another "
                     "process took its rank; join again"));
  }
  member->last_heard = attempt_.now();
  const std::string name = member->Name();
  const absl::Status status = Handle(member, report);
  ExpelOffender(&training_, &admission_);
  // Otherwise it was removed, and that is noted.
  if (!status.ok() && attempt_.membership.Find(incarnation) != nullptr) {
    if (IsTransient(status)) {
      admission_.refusals().AddRefused(name, status);
    } else {
      admission_.Expel(incarnation, status);
    }
  }
  return status;
}

absl::Status Coordinator::Handle(Member* member, const WorkerReport& report) {
  const int64_t incarnation = member->incarnation;
  switch (report.report_case()) {
    case WorkerReport::kReady:
      return admission_.OnReady(member, report.ready());
    case WorkerReport::kSynced:
      return admission_.OnSynced(member, report.synced());
    case WorkerReport::kHeartbeat:
      TRIBUTARY_RETURN_IF_ERROR(
          CheckStatistics(report.heartbeat().statistics()));
      peers_.OnHeartbeat(member, report.heartbeat());
      return absl::OkStatus();
    case WorkerReport::kClaim:
      return assignment_.OnStepRequest(*member);
    case WorkerReport::kEvaluation:
      return training_.OnEvaluation(*member, report.evaluation());
    case WorkerReport::kSums:
      return training_.OnWorkerSums(incarnation, report.sums());
    case WorkerReport::kPublication:
      return attempt_.mode->Publish(incarnation, report.publication());
    case WorkerReport::kSaved:
      training_.OnSaved(incarnation, report.saved());
      return absl::OkStatus();
    case WorkerReport::kUntrained:
      return assignment_.OnUntrained(incarnation, report.untrained());
    case WorkerReport::kEndJob:
      return training_.OnEndJob(report.end_job());
    case WorkerReport::kFailure:
      admission_.OnFailure(*member, report.failure());
      return absl::OkStatus();
    case WorkerReport::kFarewell:
      TRIBUTARY_RETURN_IF_ERROR(
          CheckStatistics(report.farewell().statistics()));
      attempt_.farewells.push_back(
          {"worker", member->rank, report.farewell().statistics(), member->host,
           member->pid, member->release, member->device});
      return absl::OkStatus();
    case WorkerReport::kClockProbe: {
      TRIBUTARY_RETURN_IF_ERROR(
          CheckTraces(attempt_.options.job, "a clock probe"));
      trace_.Expect(TracedNameOf(*member));
      CoordinatorOrder order;
      *order.mutable_clock_reading() =
          ReadClock(report.clock_probe(), attempt_.now());
      member->link->Send(order);
      return absl::OkStatus();
    }
    case WorkerReport::kTrace:
      TRIBUTARY_RETURN_IF_ERROR(
          CheckTraces(attempt_.options.job, "trace records"));
      return trace_.Add(TracedNameOf(*member), report.trace());
    case WorkerReport::kJoin:
    case WorkerReport::REPORT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected report from a worker");
}

std::vector<TracedProcess> Coordinator::TakeTrace() {
  absl::MutexLock lock(&mu_);
  return trace_.Take();
}

bool Coordinator::trace_complete() const {
  absl::MutexLock lock(&mu_);
  return trace_.complete();
}

void Coordinator::OnWorkerDisconnected(int64_t incarnation) {
  absl::MutexLock lock(&mu_);
  const Member* const member = attempt_.membership.Find(incarnation);
  if (member != nullptr) trace_.Lose(TracedNameOf(*member));
  peers_.RemoveWorker(incarnation, absl::OkStatus());
}

absl::Status Coordinator::AddServer(const Enlist& enlist, ServerLink* link) {
  TRIBUTARY_RETURN_IF_ERROR(CheckProtocol(enlist.protocol_version()));
  absl::MutexLock lock(&mu_);
  return admission_.AddServer(enlist, link);
}

absl::Status Coordinator::OnServerReport(int shard,
                                         const ServerReport& report) {
  absl::MutexLock lock(&mu_);
  attempt_.servers.SetHeard(shard, attempt_.now());
  switch (report.report_case()) {
    case ServerReport::kConfigured:
      admission_.OnConfigured(shard);
      return absl::OkStatus();
    case ServerReport::kReplicated:
      admission_.OnReplicated(shard);
      return absl::OkStatus();
    case ServerReport::kReplicationFailure:
      admission_.OnReplicationFailure(shard,
                                      report.replication_failure().message());
      return absl::OkStatus();
    case ServerReport::kSums: {
      const absl::Status added = training_.OnSums(shard, report.sums());
      ExpelOffender(&training_, &admission_);
      return added;
    }
    case ServerReport::kSnapshot:
      return training_.OnSnapshot(shard, report.snapshot());
    case ServerReport::kHeartbeat:
      if (report.heartbeat().has_statistics()) {
        peers_.OnServerStatistics(shard, report.heartbeat().statistics());
      }
      attempt_.servers.SetMissing(
          shard, report.heartbeat().has_missing()
                     ? std::optional<MissingWork>(report.heartbeat().missing())
                     : std::nullopt);
      training_.OnServerVersion(shard, report.heartbeat().version());
      return absl::OkStatus();
    case ServerReport::kViolation:
      admission_.Expel(
          report.violation().incarnation(),
          absl::InvalidArgumentError(report.violation().message()));
      return absl::OkStatus();
    case ServerReport::kLeaving:
      training_.OnLeaving(shard);
      return absl::OkStatus();
    case ServerReport::kFailure:
      peers_.OnServerFailure(shard, report.failure());
      return absl::OkStatus();
    case ServerReport::kFarewell: {
      const ProcessIdentity& server =
          attempt_.servers.servers()[shard].identity;
      attempt_.farewells.push_back({"server", shard,
                                    report.farewell().statistics(), server.host,
                                    server.pid, server.release, server.device});
      return absl::OkStatus();
    }
    case ServerReport::kClockProbe: {
      TRIBUTARY_RETURN_IF_ERROR(
          CheckTraces(attempt_.options.job, "a clock probe"));
      trace_.Expect({"server", shard});
      ServerOrder order;
      *order.mutable_clock_reading() =
          ReadClock(report.clock_probe(), attempt_.now());
      ServerLink* const link = attempt_.servers.servers()[shard].link;
      if (link != nullptr) link->Send(order);
      return absl::OkStatus();
    }
    case ServerReport::kTrace:
      TRIBUTARY_RETURN_IF_ERROR(
          CheckTraces(attempt_.options.job, "trace records"));
      return trace_.Add({"server", shard}, report.trace());
    case ServerReport::kEnlist:
    case ServerReport::REPORT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected report from a server");
}

void Coordinator::ServerGone(int shard) {
  absl::MutexLock lock(&mu_);
  peers_.OnServerGone(shard);
}

void Coordinator::OnCheckpointFolder(
    const absl::StatusOr<std::string>& folder) {
  absl::MutexLock lock(&mu_);
  training_.OnCheckpointFolder(folder);
}

void Coordinator::OnCheckpointCommitted(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  training_.OnCheckpointCommitted(status);
}

void Coordinator::Tick() {
  absl::MutexLock lock(&mu_);
  watchdog_.Tick();
}

void Coordinator::Fail(const absl::Status& reason) {
  absl::MutexLock lock(&mu_);
  attempt_.Fail(reason, /*exit_code=*/1);
}

void Coordinator::Overtaken(const absl::Status& reason) {
  absl::MutexLock lock(&mu_);
  attempt_.GiveUp(reason);
}

void Coordinator::Drain() {
  absl::MutexLock lock(&mu_);
  training_.Drain();
}

Coordinator::Ending Coordinator::AwaitEnding(absl::Duration timeout) {
  const auto over = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return attempt_.ending() != Ending::kNone;
  };
  absl::MutexLock lock(&mu_);
  AwaitFor(&mu_, absl::Condition(&over), timeout);
  return attempt_.ending();
}

void Coordinator::FinishServers() {
  absl::MutexLock lock(&mu_);
  attempt_.Conclude();
}

bool Coordinator::AwaitServersGone(absl::Duration timeout) {
  const auto gone = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return attempt_.servers.none_there();
  };
  absl::MutexLock lock(&mu_);
  return AwaitFor(&mu_, absl::Condition(&gone), timeout);
}

std::vector<std::string> Coordinator::TakeNotices() {
  absl::MutexLock lock(&mu_);
  return admission_.refusals().Take();
}

AttemptFacts Coordinator::Facts() const {
  absl::MutexLock lock(&mu_);
  AttemptFacts facts;
  facts.has_trained = admission_.has_trained() && !watchdog_.stalled();
  if (admission_.has_trained()) facts.data = attempt_.progress->facts();
  facts.layout = attempt_.layout;
  if (attempt_.progress.has_value()) {
    facts.final_version = attempt_.progress->evaluations().final_version();
  }
  if (attempt_.complete()) {
    facts.complete_checkpoint = attempt_.options.resume->folder;
  }
  for (const ServerRoster::Server& server : attempt_.servers.servers()) {
    facts.server_addresses.push_back(server.address);
  }
  facts.workers_at_ending = attempt_.workers_at_ending;
  facts.workers_told_done = attempt_.workers_told_done;
  facts.untrained = attempt_.untrained.tensors();
  facts.memory_failed = admission_.memory_failed();
  return facts;
}

absl::Status Coordinator::status() const {
  absl::MutexLock lock(&mu_);
  return attempt_.phase.failure();
}

StatusReply Coordinator::GetStatus() const {
  absl::MutexLock lock(&mu_);
  return DescribeJob(attempt_);
}

void Coordinator::AddMetrics(MetricsPage* page) const {
  JobMetricsInputs job;
  {
    absl::MutexLock lock(&mu_);
    job.status = DescribeJob(attempt_);
    job.workers_lost = attempt_.workers_lost;
    job.lease_expiries = attempt_.lease_expiries;
    if (attempt_.progress.has_value()) {
      job.step_seconds = attempt_.progress->step_times().all;
      job.sample_count = attempt_.progress->Totals().sample_count;
    }
  }
  AddJobMetrics(job, page);
}

std::string Coordinator::Summary(const std::string& weights_sha256) const {
  absl::MutexLock lock(&mu_);
  return SummaryJson(attempt_, weights_sha256);
}

CheckpointManifest Coordinator::FinalManifest() const {
  absl::MutexLock lock(&mu_);
  return training_.FinalManifest();
}

}  // namespace tributary
