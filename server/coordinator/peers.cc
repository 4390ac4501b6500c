#include "server/coordinator/peers.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace tributary {

void Peers::OnJoined(const Member& member) {
  attempt_.Note(JobEvent::INFO, "worker_joined",
                absl::StrCat(member.Name(), " has joined"), "worker",
                member.rank);
  attempt_.most_workers =
      std::max(attempt_.most_workers, attempt_.membership.count());
  alone_since_ = absl::InfiniteFuture();
}

void Peers::OnHeartbeat(Member* member, const Heartbeat& heartbeat) {
  double waiting_seconds = 0;
  if (attempt_.progress.has_value()) {
    StepBreakdown* breakdown = attempt_.progress->breakdown();
    breakdown->AddCounters(member->incarnation, heartbeat.statistics());
    waiting_seconds = breakdown->waiting_seconds(member->incarnation);
    // A worker that opens its data does not send statistics yet.
    if (heartbeat.has_statistics()) {
      attempt_.progress->resources()->Add(
          "worker", member->rank, heartbeat.statistics(), attempt_.now());
    }
  }
  attempt_.membership.AddHeartbeat(member, heartbeat, waiting_seconds,
                                   attempt_.now());
  if (attempt_.phase.training() &&
      attempt_.mode->AssignmentIsSlow(attempt_.now())) {
    ++attempt_.assignments_by_speed;
    assignment_.Assign();
  }
}

void Peers::RemoveWorker(int64_t incarnation, const absl::Status& status) {
  const Member* const member = attempt_.membership.Find(incarnation);
  if (member == nullptr) return;
  if (!status.ok()) member->link->Close(status);
  const std::string name = member->Name();
  const int rank = member->rank;
  attempt_.membership.Remove(incarnation);
  if (attempt_.progress.has_value())
    attempt_.progress->resources()->Remove("worker", rank);
  ForgetWorker(incarnation);
  if (attempt_.membership.count() == 0) alone_since_ = attempt_.now();
  if (attempt_.phase.training()) {
    ++attempt_.workers_lost;
    attempt_.Note(JobEvent::WARNING, "worker_lost",
                  status.ok() ? absl::StrCat(name, ": its connection has ended")
                              : absl::StrCat(name, ": ", status.message()),
                  "worker", rank);
    OnWorkerLost(incarnation, name);
  }
}

void Peers::RemoveWorkers(const absl::Status& status) {
  while (attempt_.membership.count() > 0) {
    RemoveWorker(attempt_.membership.members().begin()->first, status);
  }
}

void Peers::ForgetWorker(int64_t incarnation) {
  if (attempt_.progress.has_value())
    attempt_.progress->breakdown()->RemoveWorker(incarnation);
  attempt_.mode->RemoveWorker(incarnation);
  assignment_.OnWorkerGone(incarnation);
  on_forget_(incarnation);
}

void Peers::OnWorkerLost(int64_t incarnation, const std::string& name) {
  if (attempt_.saved_ending.has_value()) return;
  const absl::Status lost = attempt_.mode->OnWorkerLost(incarnation, name);
  if (lost.ok()) {
    assignment_.Assign();
  } else if (HasLastVersion()) {
    // Only its evaluation is missing.
    attempt_.EndWithCheckpoint(lost, /*exit_code=*/std::nullopt);
  } else {
    attempt_.RollBack(AttemptEnding::kRolledBack, lost);
  }
}

bool Peers::HasLastVersion() const {
  const int64_t version = attempt_.progress->evaluations().final_version();
  return attempt_.progress->round() == version &&
         attempt_.mode->HasState(version);
}

void Peers::OnWorkerExpired(const Member& member) {
  ++attempt_.lease_expiries;
  const absl::Status reason = absl::DeadlineExceededError(
      absl::StrCat(member.Name(), " was silent for longer than its lease of ",
                   absl::FormatDuration(attempt_.lease())));
  attempt_.Note(JobEvent::WARNING, "lease_expired",
                std::string(reason.message()), "worker", member.rank);
  RemoveWorker(member.incarnation, reason);
}

void Peers::OnServerFailure(int shard, const Failure& failure) {
  if (failure.checkpoint_damaged()) {
    attempt_.RollBack(AttemptEnding::kDamaged,
                      absl::DataLossError(absl::StrCat("server ", shard, ": ",
                                                       failure.message())));
  } else {
    attempt_.FailAsReported(
        failure,
        absl::StrCat("server ", shard, " failed: ", failure.message()));
    attempt_.EndIfSaved(/*server_lost=*/true);
  }
}

void Peers::OnServerStatistics(int shard, const ProcessStatistics& statistics) {
  attempt_.servers.SetStatistics(shard, statistics);
  if (attempt_.progress.has_value()) {
    attempt_.progress->resources()->Add("server", shard, statistics,
                                        attempt_.now());
  }
}

void Peers::OnServerGone(int shard) {
  if (!attempt_.servers.Remove(shard) || attempt_.phase.concluded()) return;
  const absl::Status reason = absl::UnavailableError(absl::StrCat(
      "lost server ", shard, " (", attempt_.servers.servers()[shard].address,
      ") and its part of the weights"));
  attempt_.Note(JobEvent::WARNING, "server_lost", std::string(reason.message()),
                "server", shard);
  if (attempt_.saved_ending.has_value()) {
    attempt_.EndIfSaved(/*server_lost=*/true);
    return;
  }
  // The next server holds a replica of this server's part of the model.
  if (attempt_.phase.finishing() && attempt_.keeps_replicas()) return;
  if (attempt_.phase.finishing() && attempt_.ending() == AttemptEnding::kNone &&
      !attempt_.complete() &&
      attempt_.checkpoints->schedule()->committed() !=
          attempt_.progress->evaluations().final_version()) {
    // Workers have begun to leave, so none would be left to compute the lost
    // steps again.
    attempt_.Fail(reason, /*exit_code=*/1);
    return;
  }
  attempt_.RollBack(AttemptEnding::kRolledBack, reason);
}

void Peers::OnServerExpired(int shard) {
  ++attempt_.lease_expiries;
  const absl::Status reason = absl::DeadlineExceededError(absl::StrCat(
      "server ", shard, " was silent for longer than its lease of ",
      absl::FormatDuration(attempt_.lease())));
  attempt_.Note(JobEvent::WARNING, "lease_expired",
                std::string(reason.message()), "server", shard);
  attempt_.servers.servers()[shard].link->Close(JoinAgain(reason));
  attempt_.RollBack(AttemptEnding::kRolledBack, reason);
}

void Peers::FinishComplete() {
  if (!attempt_.phase.waiting()) return;
  const ResumePoint& resume = *attempt_.options.resume;
  absl::StatusOr<ArenaLayout> layout =
      ArenaLayout::Create(resume.manifest.table());
  if (!layout.ok()) {
    attempt_.Fail(layout.status(), /*exit_code=*/1);
    return;
  }
  Beginning beginning;
  beginning.step = resume.manifest.step();
  beginning.job_state = resume.manifest.job_state();
  beginning.checkpoint = resume.folder;
  if (attempt_.options.on_begin) attempt_.options.on_begin(beginning);
  attempt_.layout = *std::move(layout);
  attempt_.phase.Finish();
  RemoveWorkers(absl::OutOfRangeError("the job is done"));
  DataFacts facts;
  facts.set_steps(resume.manifest.step());
  facts.set_steps_per_epoch(1);
  attempt_.progress.emplace(attempt_.options.job, facts, /*chunks=*/1,
                            attempt_.options.servers);
  attempt_.progress->Resume(resume.manifest.version(),
                            resume.manifest.job_state());
  attempt_.progress->Begin(attempt_.now());
}

}  // namespace tributary
