#include "server/coordinator/admission_control.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/exit_code.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "server/membership/peer_checks.h"

namespace tributary {
namespace {

// Returns the line about a worker that is removed for this reason.
std::string CannotTakePart(const Member& member, const absl::Status& reason) {
  return absl::StrCat(member.Name(), " cannot take part: ", reason.message());
}

// Returns the members that have been expected to report Synced since before
// `deadline`. None is expected to before the time `initialized`.
std::vector<int64_t> ExpectedBefore(absl::Time deadline, absl::Time initialized,
                                    const Membership& membership) {
  std::vector<int64_t> late;
  for (const auto& [incarnation, member] : membership.members()) {
    if (std::max(member.opened_since, initialized) < deadline) {
      late.push_back(incarnation);
    }
  }
  return late;
}

}  // namespace

AdmissionControl::AdmissionControl(Attempt* attempt, WorkAssignment* assignment,
                                   Training* training, Peers* peers)
    : attempt_(*attempt),
      assignment_(*assignment),
      training_(*training),
      peers_(*peers),
      quorum_(attempt->options.expected_workers, attempt->options.most_workers,
              attempt->options.start_timeout,
              /*data_known=*/attempt->options.data.has_value()),
      data_owner_("the workers that it was begun with") {}

absl::StatusOr<int64_t> AdmissionControl::AddWorker(const Join& join,
                                                    WorkerLink* link) {
  if (attempt_.phase.finishing()) ++attempt_.workers_told_done;
  TRIBUTARY_RETURN_IF_ERROR(attempt_.CheckWorkerMayJoin());
  Membership& membership = attempt_.membership;
  // A worker that takes over a rank does not increase the number of members.
  if (membership.count() >= attempt_.options.max_workers &&
      !membership.HasRank(join.rank())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the job has ", Counted(membership.count(), "worker"),
                     ", as many as its server allows: start that with a higher "
                     "--workers for more"));
  }
  const Membership::Admitted admitted = membership.Add(join, attempt_.now());
  if (admitted.fenced.has_value()) {
    const Member& old = *admitted.fenced;
    old.link->Close(absl::FailedPreconditionError(absl::StrCat(
        "rank ", admitted.rank, " was taken over by a newer process (host ",
        join.host(), ", process ", join.pid(),
        "): give each worker a rank of its own, or none")));
    peers_.ForgetWorker(old.incarnation);
  }
  membership.Find(admitted.incarnation)->link = link;
  peers_.OnJoined(*membership.Find(admitted.incarnation));
  AdmitWaiting();
  // Last, because it may close all connections, including this worker's.
  if (admitted.fenced.has_value() && attempt_.phase.training()) {
    peers_.OnWorkerLost(admitted.fenced->incarnation, admitted.fenced->Name());
  }
  return admitted.incarnation;
}

void AdmissionControl::AdmitWaiting() {
  const ServerRoster& servers = attempt_.servers;
  if (!servers.all_there()) return;
  for (const auto& [incarnation, listed] : attempt_.membership.members()) {
    if (listed.admitted) continue;
    Member* const member = attempt_.membership.Find(incarnation);
    member->admitted = true;
    member->link->Send(AdmissionOrder(attempt_.options, servers.servers(),
                                      *member, !assignment_.stages_chosen()));
  }
}

absl::Status AdmissionControl::OnReady(Member* member, const Ready& ready) {
  // Until all servers have enlisted, the orders could not reach all of them.
  if (!member->admitted) {
    return absl::FailedPreconditionError("Ready before Admission");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(ready.table()));
  absl::Status fits = CheckExternalData(ready.data(), attempt_.options.job);
  if (fits.ok()) fits = CheckReady(ready);
  if (fits.ok()) fits = CheckFacts(ready.data(), attempt_.options.job);
  if (fits.ok()) fits = attempt_.mode->OnReady(member->incarnation, ready);
  if (!fits.ok()) {
    // The returned error closes the worker's connection.
    RefuseWorker(member->incarnation, fits, CannotTakePart(*member, fits));
    return fits;
  }
  if (ready.data().steps() < 1 || ready.data().steps_per_epoch() < 1) {
    return absl::InvalidArgumentError("a job needs at least one step");
  }
  member->device = ready.device();
  member->nccl_device = ready.nccl_device();
  member->stage_address = ready.stage_address();
  member->local_stage_address = ready.local_stage_address();
  member->has_untrained = ready.has_untrained();
  member->ready = true;
  quorum_.Add(*member, ready, layout.signature(), attempt_.now());
  TRIBUTARY_RETURN_IF_ERROR(PrepareIfDue());
  OpenWaiting();
  return absl::OkStatus();
}

absl::Status AdmissionControl::CheckReady(const Ready& ready) const {
  if (attempt_.layout.has_value()) {
    TRIBUTARY_RETURN_IF_ERROR(
        CheckData(ready.data(), attempt_.progress->facts(), data_owner_));
    return CheckModel(ready.table(), *attempt_.layout);
  }
  const std::optional<DataFacts>& data = attempt_.options.data;
  if (!data.has_value()) return absl::OkStatus();
  return CheckData(ready.data(), *data, data_owner_);
}

absl::Status AdmissionControl::PrepareIfDue() {
  if (!attempt_.phase.waiting() || attempt_.layout.has_value()) {
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<StartQuorum::Decision>> decided =
      quorum_.Decide(attempt_.now());
  if (!decided.ok()) {
    attempt_.Fail(decided.status(), /*exit_code=*/2);
    return decided.status();
  }
  if (!decided->has_value()) return absl::OkStatus();
  const StartQuorum::Decision decision = **std::move(decided);
  data_owner_ = decision.whose;
  TRIBUTARY_RETURN_IF_ERROR(Prepare(decision.ready));
  for (const auto& [incarnation, ready] : decision.outvoted) {
    const absl::Status outvoted = CheckReady(ready);
    RefuseWorker(
        incarnation, outvoted,
        CannotTakePart(*attempt_.membership.Find(incarnation), outvoted));
  }
  OpenWaiting();
  return absl::OkStatus();
}

absl::Status AdmissionControl::Prepare(const Ready& ready) {
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout,
                             ArenaLayout::Create(ready.table()));
  ServerRoster& servers = attempt_.servers;
  const absl::StatusOr<Beginning> beginning =
      ChooseBeginning(attempt_.options, ready, servers.servers());
  if (!beginning.ok()) {
    attempt_.Fail(beginning.status(), /*exit_code=*/2);
    return beginning.status();
  }
  if (attempt_.options.on_begin) attempt_.options.on_begin(*beginning);
  training_.Prepare(std::move(layout), ready, *beginning);
  stored_ = beginning->stored;
  if (beginning->resumes() || attempt_.mode->workers_load_state()) {
    SetInitialized();
  }
  const auto order = [&](int shard) {
    return ConfigureOrder(attempt_.options, ready, *beginning,
                          servers.servers(), shard);
  };
  if (attempt_.mode->workers_load_state()) {
    open_ = OpenOrder(order(/*shard=*/0), *beginning);
  }
  servers.SendEach(order);
  return absl::OkStatus();
}

void AdmissionControl::RefuseWorker(int64_t incarnation,
                                    const absl::Status& told,
                                    const std::string& line) {
  const Member& member = *attempt_.membership.Find(incarnation);
  refusals_.AddRemoved(line);
  quorum_.Refuse(member);
  peers_.RemoveWorker(incarnation, told);
}

void AdmissionControl::Expel(int64_t incarnation, const absl::Status& reason) {
  ServerOrder order;
  order.mutable_revoke()->set_incarnation(incarnation);
  attempt_.servers.Send(order);
  const Member* const member = attempt_.membership.Find(incarnation);
  if (member == nullptr) return;
  RefuseWorker(incarnation, reason,
               absl::StrCat(member->Name(), " is refused: ", reason.message()));
}

void AdmissionControl::Dismiss(int64_t incarnation, const std::string& line) {
  refusals_.AddRemoved(line);
  peers_.RemoveWorker(incarnation, absl::DeadlineExceededError(line));
}

void AdmissionControl::EndWaits() {
  if (!attempt_.phase.under_way() || !attempt_.layout.has_value()) return;
  const absl::Time now = attempt_.now();
  const absl::Duration timeout = attempt_.options.stall_timeout;
  const std::string within =
      absl::StrCat(" within ", absl::FormatDuration(timeout));
  if (!initialized_ && attempt_.servers.all_have(0)) SetInitialized();
  if (!initialized_ && !attempt_.in_stages()) {
    if (initializer_ != 0 && now - initializer_since_ > timeout) {
      Dismiss(initializer_,
              absl::StrCat(attempt_.membership.Find(initializer_)->Name(),
                           " has not sent the initial weights", within));
    }
    return;
  }
  if (!attempt_.phase.waiting() || has_trained()) return;
  for (const int64_t incarnation :
       ExpectedBefore(now - timeout, initialized_since_, attempt_.membership)) {
    Dismiss(incarnation,
            absl::StrCat(attempt_.membership.Find(incarnation)->Name(),
                         " has not reported Synced", within));
  }
}

void AdmissionControl::SetInitialized() {
  initialized_ = true;
  initialized_since_ = attempt_.now();
}

void AdmissionControl::OpenWaiting() {
  const ServerRoster& servers = attempt_.servers;
  if (!attempt_.layout.has_value() || !servers.all_configured()) return;
  if (attempt_.keeps_replicas() && !servers.all_replicated()) return;
  for (const auto& [incarnation, listed] : attempt_.membership.members()) {
    if (!listed.ready) continue;
    const bool initialize =
        !attempt_.in_stages() && !initialized_ && initializer_ == 0;
    if (listed.opened && !initialize) continue;
    if (initialize) {
      initializer_ = incarnation;
      initializer_since_ = attempt_.now();
    }
    Member* const member = attempt_.membership.Find(incarnation);
    member->opened = true;
    // In a pipeline, the time begins with the Stage.
    if (!attempt_.in_stages()) member->opened_since = attempt_.now();
    CoordinatorOrder order = open_;
    order.mutable_open()->set_initialize(initialize);
    member->link->Send(order);
  }
  assignment_.OrderStages(quorum_.awaited());
}

absl::Status AdmissionControl::OnSynced(Member* member, const Synced& synced) {
  if (!member->opened) {
    return absl::FailedPreconditionError("Synced before Open");
  }
  if (member->synced || !attempt_.mode->OnSynced(*member, synced)) {
    return absl::OkStatus();
  }
  member->synced = true;
  // A worker has received the weights only if the servers have them, unless it
  // had to send them, or some of them, first.
  if (!initialized_ && !attempt_.in_stages() &&
      member->incarnation != initializer_) {
    SetInitialized();
  }
  first_synced_ = std::min(first_synced_, attempt_.now());
  if (attempt_.phase.training()) {
    assignment_.Assign();
  } else {
    StartIfDue();
  }
  return absl::OkStatus();
}

void AdmissionControl::StartIfDue() {
  if (!attempt_.phase.waiting()) return;
  assignment_.OrderStages(quorum_.awaited());
  if (attempt_.membership.synced_count() == 0) return;
  if (!assignment_.EnoughSynced(quorum_.awaited()) &&
      attempt_.now() - first_synced_ < attempt_.options.start_timeout) {
    return;
  }
  training_.Begin();
}

void AdmissionControl::OnFailure(const Member& member, const Failure& failure) {
  const std::string reason =
      absl::StrCat(member.Name(), " failed: ", failure.message());
  if (failure.exit_code() == kExitPreempted) {
    // Named if no other worker joins in time.
    refusals_.AddLeft(reason);
    peers_.RemoveWorker(member.incarnation, absl::AbortedError(reason));
    return;
  }
  if (!member.ready) {
    // The worker cannot open the data or build the model. If no worker can, the
    // job is at fault; otherwise the worker's machine is.
    RefuseWorker(member.incarnation, absl::AbortedError(reason),
                 CannotTakePart(member, absl::AbortedError(failure.message())));
    if (!attempt_.phase.waiting()) return;
    if (attempt_.membership.count() == 0 && quorum_.all_refused()) {
      attempt_.FailAsReported(failure, reason);
    } else if (PrepareIfDue().ok()) {
      StartIfDue();
    }
  } else if (attempt_.phase.waiting() || (attempt_.membership.count() == 1 &&
                                          !attempt_.phase.finishing())) {
    attempt_.FailAsReported(failure, reason);
  } else {
    peers_.RemoveWorker(member.incarnation, absl::AbortedError(reason));
  }
}

void AdmissionControl::RemoveWorker(int64_t incarnation) {
  quorum_.Remove(incarnation);
  if (attempt_.phase.waiting()) assignment_.OrderStages(quorum_.awaited());
  if (initializer_ != incarnation) return;
  initializer_ = 0;
  if (!initialized_) OpenWaiting();
}

absl::Status AdmissionControl::AddServer(const Enlist& enlist,
                                         ServerLink* link) {
  TRIBUTARY_RETURN_IF_ERROR(attempt_.phase.CheckServerMayEnlist());
  TRIBUTARY_RETURN_IF_ERROR(attempt_.servers.Add(enlist, link, attempt_.now()));
  if (attempt_.complete() && attempt_.servers.all_there()) {
    attempt_.workers_told_done += attempt_.membership.count();
    peers_.FinishComplete();
  }
  AdmitWaiting();
  return absl::OkStatus();
}

void AdmissionControl::OnConfigured(int shard) {
  // Peers may still report failures when the attempt ends.
  if (!attempt_.phase.waiting()) return;
  ServerRoster& servers = attempt_.servers;
  servers.SetConfigured(shard);
  if (attempt_.keeps_replicas() && servers.all_configured()) {
    servers.SendEach([this, &servers](int other) {
      return ReplicateOrder(servers.servers(), other, stored_);
    });
  }
  OpenWaiting();
}

void AdmissionControl::OnReplicated(int shard) {
  if (!attempt_.phase.waiting()) return;
  attempt_.servers.SetReplicated(shard);
  OpenWaiting();
}

void AdmissionControl::OnReplicationFailure(int shard,
                                            const std::string& message) {
  if (attempt_.phase.waiting()) memory_failed_ = !stored_.empty();
  // At the end of the attempt the other servers may disconnect first.
  if (!attempt_.phase.under_way()) return;
  attempt_.RollBack(
      AttemptEnding::kRolledBack,
      absl::UnavailableError(absl::StrCat(
          "server ", shard,
          " cannot replicate its state or read a replica: ", message)));
}

}  // namespace tributary
