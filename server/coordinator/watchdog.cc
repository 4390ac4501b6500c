#include "server/coordinator/watchdog.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// How long to wait for workers that do not answer Finished, and for servers
// that are missing when nothing is left to compute.
constexpr absl::Duration kFarewellTimeout = absl::Seconds(10);

// A step that stalls so often does not end with other workers either.
constexpr int kMostStalls = 3;

// Returns true if the job has measured how long its steps take.
bool Measured(const JobProgress& progress) {
  StatusReply status;
  progress.FillStatus(&status);
  return status.step_milliseconds() > 0;
}

}  // namespace

Watchdog::Watchdog(Attempt* attempt, WorkAssignment* assignment,
                   Training* training, Peers* peers,
                   AdmissionControl* admission)
    : attempt_(*attempt),
      assignment_(*assignment),
      training_(*training),
      peers_(*peers),
      admission_(*admission) {
  last_tick_ = servers_missing_since_ = stall_ended_ = attempt_.now();
}

void Watchdog::Tick() {
  const absl::Time now = attempt_.now();
  ForgivePause(now);
  ExpireServers(now);
  AwaitServers(now);
  ExpireWorkers(now);
  assignment_.AssignIfDue();
  admission_.PrepareIfDue()
      .IgnoreError();  // An error has already failed the job.
  admission_.StartIfDue();
  admission_.EndWaits();
  training_.RunCheckpointsWhileIdle();
  EndStall(now);
  if (attempt_.phase.finishing() &&
      now - attempt_.finishing_since > kFarewellTimeout) {
    peers_.RemoveWorkers(absl::OutOfRangeError("the job is done"));
  }
  AwaitWorkers(now);
}

void Watchdog::ForgivePause(absl::Time now) {
  const absl::Duration gap = now - last_tick_;
  last_tick_ = now;
  if (gap <= attempt_.lease() / 4) return;
  attempt_.membership.Forgive(gap);
  attempt_.servers.Forgive(gap);
}

void Watchdog::ExpireServers(absl::Time now) {
  for (const int shard : attempt_.servers.Expired(now, attempt_.lease())) {
    peers_.OnServerExpired(shard);
  }
}

void Watchdog::AwaitServers(absl::Time now) {
  // Servers that are still missing are not needed.
  if (attempt_.complete() && now - servers_missing_since_ > kFarewellTimeout) {
    peers_.FinishComplete();
  }
  const ServerRoster& servers = attempt_.servers;
  const AttemptOptions& options = attempt_.options;
  if (servers.all_there()) {
    servers_missing_since_ = now;
  } else if (attempt_.phase.waiting() &&
             now - servers_missing_since_ > options.no_server_timeout) {
    attempt_.Fail(
        absl::DeadlineExceededError(absl::StrCat(
            "server ", servers.FirstMissing(), " has not come within ",
            absl::FormatDuration(options.no_server_timeout),
            ": start it with `tributary server --shard ",
            servers.FirstMissing(), " --servers ", options.servers,
            " --coordinator HOST:PORT`")),
        /*exit_code=*/1);
  }
}

void Watchdog::ExpireWorkers(absl::Time now) {
  for (const int64_t incarnation : attempt_.membership.Expired(now)) {
    peers_.OnWorkerExpired(*attempt_.membership.Find(incarnation));
  }
}

void Watchdog::AwaitWorkers(absl::Time now) {
  const absl::Duration timeout = attempt_.options.no_worker_timeout;
  if (!attempt_.phase.under_way() || now - peers_.alone_since() <= timeout) {
    return;
  }
  const std::string& refusal = admission_.refusals().last();
  attempt_.EndWithCheckpoint(
      absl::DeadlineExceededError(absl::StrCat(
          "no worker for ", absl::FormatDuration(timeout),
          ": start some with `tributary worker --coordinator HOST:PORT`",
          refusal.empty() ? "" : absl::StrCat("; ", refusal))),
      /*exit_code=*/1);
}

void Watchdog::EndStall(absl::Time now) {
  if (!attempt_.phase.training()) return;
  const JobProgress& progress = *attempt_.progress;
  const absl::Duration timeout = attempt_.options.stall_timeout;
  if (begun_round_ < 0) begun_round_ = progress.round();
  if (progress.round() != stalled_round_) {
    stalled_round_ = progress.round();
    stalls_ = 0;
  }
  const std::optional<int64_t> piece =
      progress.evaluations().MissingPiece(progress.round());
  // Each piece that is reported shows that an evaluation goes on.
  const absl::Duration stalled = piece.has_value()
                                     ? now - progress.last_progress()
                                     : progress.Stalled(now);
  if (stalled < timeout || now - stall_ended_ < timeout) return;
  const Member* culprit = nullptr;
  if (piece.has_value()) {
    culprit = attempt_.membership.WorkerOfPiece(*piece);
  } else {
    culprit = attempt_.mode->Awaited(progress.round());
    if (culprit == nullptr) {
      culprit = attempt_.membership.Straggler(progress.round());
    }
    // How long the job's steps take is not known yet.
    if (!Measured(progress) &&
        now - (culprit != nullptr ? culprit->last_computed
                                  : attempt_.membership.last_computed()) <
            timeout) {
      return;
    }
  }
  stall_ended_ = now;
  const std::string what = absl::StrCat(
      piece.has_value() ? "the evaluation after step " : "step ",
      progress.completed_steps() + (piece.has_value() ? 0 : 1),
      " has not ended for ",
      absl::FormatDuration(absl::Trunc(stalled, absl::Seconds(1))));
  const std::string reason =
      culprit == nullptr
          ? absl::StrCat(what, ", and no worker reports a reason")
          : absl::StrCat(what, ": the others wait for ", culprit->Name(), ", ",
                         culprit->heartbeat.phase());
  if (++stalls_ >= kMostStalls) {
    attempt_.EndWithCheckpoint(absl::DeadlineExceededError(reason),
                               /*exit_code=*/1);
  } else if (culprit != nullptr) {
    admission_.Dismiss(culprit->incarnation, reason);
  } else {
    stalled_ = progress.round() == begun_round_;
    attempt_.RollBack(AttemptEnding::kRolledBack,
                      absl::DeadlineExceededError(reason));
  }
}

}  // namespace tributary
