// The checkpoints of one attempt.
#ifndef TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_CHECKPOINTS_H_
#define TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_CHECKPOINTS_H_

#include <cstdint>
#include <functional>

#include "common/job/rounds.h"
#include "common/parameters/parameter_table.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/checkpoint_committer.h"
#include "server/coordinator/checkpoint_schedule.h"
#include "server/progress/job_progress.h"

namespace tributary {

// Carries out what a CheckpointSchedule decides: passes orders to the servers
// and requests to the committer, and composes the manifests. Not thread-safe.
class AttemptCheckpoints {
 public:
  // `ready` describes the job of `servers` servers, which goes on from version
  // `first`. `committer` may be null: no checkpoints.
  AttemptCheckpoints(const JobSpec& job, const Ready& ready, int servers,
                     int64_t first, CheckpointCommitter* committer);

  // Receives the answers of the committer and the servers.
  CheckpointSchedule* schedule() { return &schedule_; }
  const CheckpointSchedule& schedule() const { return schedule_; }

  // To be called when a round is complete, before anything of the next one is
  // counted.
  void OnRound(const JobProgress& progress);
  // Does all that can be done now; `earliest`: the first version that may be
  // chosen. `order` is for all servers.
  void Run(const JobProgress& progress, int64_t earliest,
           const std::function<void(const ServerOrder&)>& order);

  // Of the job's last version, of which all is computed; names no files.
  CheckpointManifest FinalManifest(const JobProgress& progress) const;

  // Steps in the newest checkpoint; -1: there is none.
  int64_t committed_step() const;

 private:
  CheckpointManifest MakeManifest(const CheckpointSchedule::Commit& commit,
                                  const JobProgress& progress) const;
  // But for its files.
  CheckpointManifest ManifestOf(int64_t version, const JobState& state) const;

  const JobSpec job_;
  const Rounds rounds_;
  const int servers_;
  CheckpointCommitter* const committer_;
  // What the manifests of all checkpoints have in common.
  CheckpointManifest common_;
  CheckpointSchedule schedule_;
  // Of the job at the schedule's version.
  JobState saved_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_CHECKPOINTS_H_
