#include "server/coordinator/attempt_checkpoints.h"

#include <algorithm>
#include <cstdint>
#include <variant>

#include "common/job/job.h"
#include "server/membership/peer_checks.h"

namespace tributary {
namespace {

CheckpointSchedule::Options ScheduleOptions(const JobSpec& job,
                                            const Ready& ready,
                                            const Rounds& rounds, int servers,
                                            int64_t first, bool any) {
  CheckpointSchedule::Options schedule;
  if (any) {
    schedule.every = rounds.RoundsFor(job.checkpoint().every_steps());
    schedule.interval = CheckpointInterval(job);
  }
  schedule.last = rounds.count();
  schedule.servers = servers;
  schedule.first = first;
  schedule.holders = static_cast<int>(std::min<int64_t>(
      servers, ArenaLayout::Create(ready.table())->chunk_count()));
  return schedule;
}

}  // namespace

AttemptCheckpoints::AttemptCheckpoints(const JobSpec& job, const Ready& ready,
                                       int servers, int64_t first,
                                       CheckpointCommitter* committer)
    : job_(job),
      rounds_(job, ready.data().steps()),
      servers_(servers),
      committer_(committer),
      schedule_(ScheduleOptions(job, ready, rounds_, servers, first,
                                committer != nullptr)) {
  common_.set_format(1);
  common_.set_job(PrintJob(job));
  *common_.mutable_table() = ready.table();
  common_.set_signature(ArenaLayout::Create(ready.table())->signature());
  common_.set_servers(servers);
  common_.set_tables(job.has_sparse());
  for (const std::string& name : StateNames(job)) common_.add_state(name);
}

void AttemptCheckpoints::OnRound(const JobProgress& progress) {
  if (schedule_.version() == progress.round()) saved_ = progress.Save();
}

void AttemptCheckpoints::Run(
    const JobProgress& progress, int64_t earliest, absl::Time now,
    const std::function<void(const ServerOrder&)>& order) {
  const int64_t completed = progress.round();
  while (auto action =
             schedule_.Next(completed, earliest, progress.finished(), now)) {
    if (const auto* begin =
            std::get_if<CheckpointSchedule::MakeFolder>(&*action)) {
      if (begin->version == completed) saved_ = progress.Save();
      committer_->MakeFolder(rounds_.StepsAfter(begin->version));
    } else if (const auto* snapshots =
                   std::get_if<CheckpointSchedule::OrderSnapshots>(&*action)) {
      ServerOrder message;
      message.mutable_snapshot()->set_version(snapshots->version);
      message.mutable_snapshot()->set_folder(snapshots->folder);
      order(message);
    } else if (const auto* commit =
                   std::get_if<CheckpointSchedule::Commit>(&*action)) {
      const CheckpointManifest manifest = MakeManifest(*commit, progress);
      if (commit->best) {
        committer_->CommitBest(commit->folder, manifest);
      } else {
        committer_->Commit(commit->folder, manifest);
      }
    } else if (const auto* discard =
                   std::get_if<CheckpointSchedule::Discard>(&*action)) {
      committer_->Discard(discard->folder);
    } else {
      const auto& warn = std::get<CheckpointSchedule::Warn>(*action);
      committer_->Warn(rounds_.StepsAfter(warn.version), warn.message);
    }
  }
}

int64_t AttemptCheckpoints::committed_step() const {
  return schedule_.committed() > 0 ? rounds_.StepsAfter(schedule_.committed())
                                   : -1;
}

CheckpointManifest AttemptCheckpoints::MakeManifest(
    const CheckpointSchedule::Commit& commit,
    const JobProgress& progress) const {
  // An earlier checkpoint may be committed after the last step is computed.
  const bool is_final =
      !commit.best &&
      commit.version == progress.evaluations().final_version() &&
      progress.finished();
  CheckpointManifest manifest =
      is_final ? FinalManifest(progress) : ManifestOf(commit.version, saved_);
  for (const CheckpointFile& file : commit.files) *manifest.add_file() = file;
  return manifest;
}

CheckpointManifest AttemptCheckpoints::FinalManifest(
    const JobProgress& progress) const {
  CheckpointManifest manifest =
      ManifestOf(progress.evaluations().final_version(), progress.Save());
  manifest.set_complete(true);
  return manifest;
}

CheckpointManifest AttemptCheckpoints::ManifestOf(int64_t version,
                                                  const JobState& state) const {
  CheckpointManifest manifest = common_;
  manifest.set_version(version);
  manifest.set_step(rounds_.StepsAfter(version));
  *manifest.mutable_job_state() = state;
  return manifest;
}

}  // namespace tributary
