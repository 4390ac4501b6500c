#include "server/coordinator/checkpoint_driver.h"

#include <variant>

#include "common/job/job.h"
#include "server/membership/peer_checks.h"

namespace tributary {
namespace {

CheckpointPlan::Options PlanOptions(const JobSpec& job, const Rounds& rounds,
                                    int servers, int64_t first, bool any) {
  CheckpointPlan::Options plan;
  plan.every = any ? rounds.RoundsFor(job.checkpoint().every_steps()) : 0;
  plan.last = rounds.count();
  plan.servers = servers;
  plan.first = first;
  return plan;
}

}  // namespace

CheckpointDriver::CheckpointDriver(const JobSpec& job, const Ready& ready,
                                   int servers, int64_t first,
                                   CheckpointSink* sink)
    : job_(job),
      rounds_(job, ready.data().steps()),
      servers_(servers),
      sink_(sink),
      plan_(PlanOptions(job, rounds_, servers, first, sink != nullptr)) {
  common_.set_format(1);
  common_.set_job(PrintJob(job));
  *common_.mutable_table() = ready.table();
  common_.set_signature(ArenaLayout::Create(ready.table())->signature());
  common_.set_servers(servers);
  for (const std::string& name : StateNames(job)) common_.add_state(name);
}

void CheckpointDriver::OnRound(const JobProgress& progress) {
  if (plan_.version() == progress.round()) saved_ = progress.Save();
}

void CheckpointDriver::Run(
    const JobProgress& progress, int64_t earliest,
    const std::function<void(const ServerOrder&)>& order) {
  const int64_t completed = progress.round();
  while (auto action = plan_.Next(completed, earliest, progress.finished())) {
    if (const auto* begin = std::get_if<CheckpointPlan::MakeFolder>(&*action)) {
      if (begin->version == completed) saved_ = progress.Save();
      sink_->MakeFolder(rounds_.StepsAfter(begin->version));
    } else if (const auto* snapshots =
                   std::get_if<CheckpointPlan::OrderSnapshots>(&*action)) {
      ServerOrder message;
      message.mutable_snapshot()->set_version(snapshots->version);
      message.mutable_snapshot()->set_folder(snapshots->folder);
      order(message);
    } else if (const auto* commit =
                   std::get_if<CheckpointPlan::Commit>(&*action)) {
      sink_->Commit(commit->folder, MakeManifest(*commit, progress));
    } else if (const auto* discard =
                   std::get_if<CheckpointPlan::Discard>(&*action)) {
      sink_->Discard(discard->folder);
    } else {
      const auto& warn = std::get<CheckpointPlan::Warn>(*action);
      sink_->Warn(rounds_.StepsAfter(warn.version), warn.message);
    }
  }
}

int64_t CheckpointDriver::committed_step() const {
  return plan_.committed() > 0 ? rounds_.StepsAfter(plan_.committed()) : -1;
}

CheckpointManifest CheckpointDriver::MakeManifest(
    const CheckpointPlan::Commit& commit, const JobProgress& progress) const {
  // An earlier checkpoint may be committed after the last step is computed.
  const bool is_final =
      commit.version == progress.final_version() && progress.finished();
  CheckpointManifest manifest =
      is_final ? FinalManifest(progress) : ManifestOf(commit.version, saved_);
  for (const CheckpointFile& file : commit.files) *manifest.add_file() = file;
  return manifest;
}

CheckpointManifest CheckpointDriver::FinalManifest(
    const JobProgress& progress) const {
  CheckpointManifest manifest =
      ManifestOf(progress.final_version(), progress.Save());
  manifest.set_complete(true);
  return manifest;
}

CheckpointManifest CheckpointDriver::ManifestOf(int64_t version,
                                                const JobState& state) const {
  CheckpointManifest manifest = common_;
  manifest.set_version(version);
  manifest.set_step(rounds_.StepsAfter(version));
  *manifest.mutable_job_state() = state;
  return manifest;
}

}  // namespace tributary
