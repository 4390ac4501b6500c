#include "server/coordinator/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "server/coordinator/job_metrics.h"
#include "server/membership/peer_checks.h"

namespace tributary {

Coordinator::Coordinator(const Options& options, Clock clock,
                         MetricsSink metrics)
    : attempt_(options, std::move(clock), std::move(metrics),
               [this](int64_t incarnation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
                 admission_.RemoveWorker(incarnation);
               }),
      admission_(&attempt_),
      watchdog_(&attempt_, &admission_) {}

absl::StatusOr<int64_t> Coordinator::AddWorker(const Join& join,
                                               WorkerLink* link) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S2"));
  absl::MutexLock lock(&mu_);
  const absl::Status speaks = CheckProtocol(join.protocol_version());
  const absl::StatusOr<int64_t> incarnation =
      speaks.ok() ? admission_.AddWorker(join, link) : speaks;
  if (!incarnation.ok()) {
    admission_.NoteRefusal(absl::StrCat("a worker (host ", join.host(),
                                        ", process ", join.pid(), ")"),
                           incarnation.status());
  }
  return incarnation;
}

absl::Status Coordinator::OnWorkerReport(int64_t incarnation,
                                         const WorkerReport& report) {
  absl::MutexLock lock(&mu_);
  Member* member = attempt_.membership().Find(incarnation);
  if (member == nullptr) {
    return absl::AbortedError(
        absl::StrCat("incarnation ", incarnation,
                     " is no longer a member: its lease expired, or another "
                     "process took its rank; join again"));
  }
  member->last_heard = attempt_.now();
  const std::string name = member->Name();
  const absl::Status status = Handle(member, report);
  ExpelOffender();
  // Otherwise it was removed, and that is noted.
  if (!status.ok() && attempt_.membership().Find(incarnation) != nullptr) {
    if (IsTransient(status)) {
      admission_.NoteRefusal(name, status);
    } else {
      admission_.Expel(incarnation, status);
    }
  }
  return status;
}

void Coordinator::ExpelOffender() {
  if (const auto offender = attempt_.TakeOffender()) {
    admission_.Expel(offender->incarnation, offender->reason);
  }
}

absl::Status Coordinator::Handle(Member* member, const WorkerReport& report) {
  const int64_t incarnation = member->incarnation;
  switch (report.report_case()) {
    case WorkerReport::kReady:
      return admission_.OnReady(member, report.ready());
    case WorkerReport::kSynced:
      return admission_.OnSynced(member);
    case WorkerReport::kHeartbeat:
      TRIBUTARY_RETURN_IF_ERROR(
          CheckStatistics(report.heartbeat().statistics()));
      attempt_.OnHeartbeat(member, report.heartbeat());
      return absl::OkStatus();
    case WorkerReport::kClaim:
      return attempt_.OnStepRequest(*member);
    case WorkerReport::kEvaluation:
      return attempt_.OnEvaluation(*member, report.evaluation());
    case WorkerReport::kSums:
      return attempt_.OnWorkerSums(incarnation, report.sums());
    case WorkerReport::kPublication:
      return attempt_.mode().Publish(incarnation, report.publication());
    case WorkerReport::kSaved:
      attempt_.OnSaved(incarnation, report.saved());
      return absl::OkStatus();
    case WorkerReport::kFailure:
      admission_.OnFailure(*member, report.failure());
      return absl::OkStatus();
    case WorkerReport::kFarewell:
      TRIBUTARY_RETURN_IF_ERROR(
          CheckStatistics(report.farewell().statistics()));
      attempt_.OnFarewell({"worker", member->rank,
                           report.farewell().statistics(), member->host,
                           member->pid, member->release, member->device});
      return absl::OkStatus();
    case WorkerReport::kClockProbe:
      return OnProbe(TracedNameOf(*member), report.clock_probe(),
                     [member](const ClockReading& reading) {
                       CoordinatorOrder order;
                       *order.mutable_clock_reading() = reading;
                       member->link->Send(order);
                     });
    case WorkerReport::kTrace:
      return OnTrace(TracedNameOf(*member), report.trace());
    case WorkerReport::kJoin:
    case WorkerReport::REPORT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected report from a worker");
}

TracedName Coordinator::TracedNameOf(const Member& member) {
  return {"worker", member.rank, member.incarnation};
}

absl::Status Coordinator::OnProbe(
    const TracedName& process, const ClockProbe& probe,
    const std::function<void(const ClockReading&)>& answer) {
  if (!attempt_.options().job.output().has_trace()) {
    return absl::InvalidArgumentError(
        "a clock probe, but the job traces no steps (output.trace)");
  }
  trace_.Expect(process);
  ClockReading reading;
  reading.set_sent_ns(probe.sent_ns());
  reading.set_coordinator_ns(absl::ToUnixNanos(attempt_.now()));
  answer(reading);
  return absl::OkStatus();
}

absl::Status Coordinator::OnTrace(const TracedName& process,
                                  const TraceRecords& records) {
  if (!attempt_.options().job.output().has_trace()) {
    return absl::InvalidArgumentError(
        "trace records, but the job traces no steps (output.trace)");
  }
  return trace_.Add(process, records);
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
  const Member* const member = attempt_.membership().Find(incarnation);
  if (member != nullptr) trace_.Lose(TracedNameOf(*member));
  attempt_.RemoveWorker(incarnation, absl::OkStatus());
}

absl::Status Coordinator::AddServer(const Enlist& enlist, ServerLink* link) {
  TRIBUTARY_RETURN_IF_ERROR(CheckProtocol(enlist.protocol_version()));
  absl::MutexLock lock(&mu_);
  return admission_.AddServer(enlist, link);
}

absl::Status Coordinator::OnServerReport(int shard,
                                         const ServerReport& report) {
  absl::MutexLock lock(&mu_);
  attempt_.servers().SetHeard(shard, attempt_.now());
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
      const absl::Status added = attempt_.OnSums(shard, report.sums());
      ExpelOffender();
      return added;
    }
    case ServerReport::kSnapshot:
      return attempt_.OnSnapshot(shard, report.snapshot());
    case ServerReport::kHeartbeat:
      if (report.heartbeat().has_statistics()) {
        attempt_.OnServerStatistics(shard, report.heartbeat().statistics());
      }
      attempt_.servers().SetMissing(
          shard, report.heartbeat().has_missing()
                     ? std::optional<MissingWork>(report.heartbeat().missing())
                     : std::nullopt);
      attempt_.OnServerVersion(shard, report.heartbeat().version());
      return absl::OkStatus();
    case ServerReport::kViolation:
      admission_.Expel(
          report.violation().incarnation(),
          absl::InvalidArgumentError(report.violation().message()));
      return absl::OkStatus();
    case ServerReport::kLeaving:
      attempt_.OnLeaving(shard);
      return absl::OkStatus();
    case ServerReport::kFailure:
      attempt_.OnServerFailure(shard, report.failure());
      return absl::OkStatus();
    case ServerReport::kFarewell: {
      const ProcessIdentity& server =
          attempt_.servers().servers()[shard].identity;
      attempt_.OnFarewell({"server", shard, report.farewell().statistics(),
                           server.host, server.pid, server.release,
                           server.device});
      return absl::OkStatus();
    }
    case ServerReport::kClockProbe:
      return OnProbe({"server", shard}, report.clock_probe(),
                     [link = attempt_.servers().servers()[shard].link](
                         const ClockReading& reading) {
                       if (link == nullptr) return;
                       ServerOrder order;
                       *order.mutable_clock_reading() = reading;
                       link->Send(order);
                     });
    case ServerReport::kTrace:
      return OnTrace({"server", shard}, report.trace());
    case ServerReport::kEnlist:
    case ServerReport::REPORT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("unexpected report from a server");
}

void Coordinator::ServerGone(int shard) {
  absl::MutexLock lock(&mu_);
  attempt_.OnServerGone(shard);
}

void Coordinator::OnCheckpointFolder(
    const absl::StatusOr<std::string>& folder) {
  absl::MutexLock lock(&mu_);
  attempt_.OnCheckpointFolder(folder);
}

void Coordinator::OnCheckpointCommitted(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  attempt_.OnCheckpointCommitted(status);
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
  attempt_.Drain();
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
    return attempt_.servers().none_there();
  };
  absl::MutexLock lock(&mu_);
  return AwaitFor(&mu_, absl::Condition(&gone), timeout);
}

int Coordinator::workers_at_ending() const {
  absl::MutexLock lock(&mu_);
  return attempt_.workers_at_ending();
}

int64_t Coordinator::workers_told_done() const {
  absl::MutexLock lock(&mu_);
  return admission_.workers_told_done();
}

bool Coordinator::memory_failed() const {
  absl::MutexLock lock(&mu_);
  return admission_.memory_failed();
}

std::optional<DataFacts> Coordinator::data() const {
  absl::MutexLock lock(&mu_);
  if (!admission_.has_trained()) return std::nullopt;
  return attempt_.progress()->facts();
}

std::vector<std::string> Coordinator::TakeNotices() {
  absl::MutexLock lock(&mu_);
  return admission_.TakeNotices();
}

bool Coordinator::has_trained() const {
  absl::MutexLock lock(&mu_);
  return admission_.has_trained() && !watchdog_.stalled();
}

absl::Status Coordinator::status() const {
  absl::MutexLock lock(&mu_);
  return attempt_.phase().failure();
}

StatusReply Coordinator::GetStatus() const {
  absl::MutexLock lock(&mu_);
  return attempt_.Describe();
}

void Coordinator::AddMetrics(MetricsPage* page) const {
  JobMetricsInputs job;
  {
    absl::MutexLock lock(&mu_);
    job.status = attempt_.Describe();
    job.workers_lost = attempt_.workers_lost();
    job.lease_expiries = attempt_.lease_expiries();
    if (attempt_.progress().has_value()) {
      job.step_seconds = attempt_.progress()->step_seconds();
      job.sample_count = attempt_.progress()->sample_count();
    }
  }
  AddJobMetrics(job, page);
}

std::string Coordinator::Summary(const std::string& weights_sha256) const {
  absl::MutexLock lock(&mu_);
  return attempt_.Summary(weights_sha256);
}

std::vector<std::string> Coordinator::server_addresses() const {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> addresses;
  for (const ServerRoster::Server& server : attempt_.servers().servers()) {
    addresses.push_back(server.address);
  }
  return addresses;
}

std::optional<ArenaLayout> Coordinator::layout() const {
  absl::MutexLock lock(&mu_);
  return attempt_.layout();
}

CheckpointManifest Coordinator::FinalManifest() const {
  absl::MutexLock lock(&mu_);
  return attempt_.FinalManifest();
}

std::string Coordinator::complete_checkpoint() const {
  absl::MutexLock lock(&mu_);
  return attempt_.complete() ? attempt_.options().resume->folder : "";
}

int64_t Coordinator::final_version() const {
  absl::MutexLock lock(&mu_);
  const std::optional<JobProgress>& progress = attempt_.progress();
  return progress.has_value() ? progress->final_version() : 0;
}

}  // namespace tributary
