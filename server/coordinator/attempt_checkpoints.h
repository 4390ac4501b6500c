// The checkpoints of one attempt.
#ifndef TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_CHECKPOINTS_H_
#define TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_CHECKPOINTS_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "common/job/rounds.h"
#include "common/parameters/arena_layout.h"
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
  // `ready` describes the model and the data. `first` is the version of the
  // newest checkpoint when the attempt begins, or 0 if there is none; see
  // CheckpointSchedule::Options. A null `committer` disables checkpoints.
  AttemptCheckpoints(const JobSpec& job, const Ready& ready, int servers,
                     int64_t first, CheckpointCommitter* committer);

  // Returns the schedule. The caller passes the results of the committer and
  // the reports of the servers to the schedule.
  CheckpointSchedule* schedule() { return &schedule_; }
  const CheckpointSchedule& schedule() const { return schedule_; }

  // Call this when a round (what servers count as one step) is complete, before
  // any report of the next round is added to `progress`. If a checkpoint is
  // being taken at the version that the round has produced, saves the job's
  // state for the manifest of that checkpoint.
  void OnRound(const JobProgress& progress);
  // Executes all actions of the schedule that are due. `earliest` is the first
  // version that may be chosen for a checkpoint, and `now` the time of the
  // attempt's clock. `order` sends an order to all servers.
  void Run(const JobProgress& progress, int64_t earliest, absl::Time now,
           const std::function<void(const ServerOrder&)>& order);

  // Returns the manifest of the finished model, with an empty list of files.
  CheckpointManifest FinalManifest(const JobProgress& progress) const;

  // Returns the number of training steps that the newest committed checkpoint
  // contains, or -1 if there is none.
  int64_t committed_step() const;

 private:
  CheckpointManifest MakeManifest(const CheckpointSchedule::Commit& commit,
                                  const JobProgress& progress) const;
  // Returns the manifest of `version`, with an empty list of files. `state` is
  // the job's state at that version.
  CheckpointManifest ManifestOf(int64_t version, const JobState& state) const;

  const JobSpec job_;
  const Rounds rounds_;
  const int servers_;
  CheckpointCommitter* const committer_;
  // The fields that all checkpoints' manifests share.
  CheckpointManifest common_;
  CheckpointSchedule schedule_;
  // The job's state at the version of the checkpoint under way, for the
  // manifest of that checkpoint.
  JobState saved_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_CHECKPOINTS_H_
