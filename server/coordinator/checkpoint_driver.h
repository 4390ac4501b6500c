// Has checkpoints made: carries out what a CheckpointPlan decides.
#ifndef TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_DRIVER_H_
#define TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_DRIVER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/job/rounds.h"
#include "common/parameters/parameter_table.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/checkpoint_plan.h"
#include "server/progress/job_progress.h"

namespace tributary {

// Does what waits for the disk. Called with the coordinator's lock held: must
// not block, nor call the coordinator from this thread.
class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  // Answer: OnCheckpointFolder.
  virtual void MakeFolder(int64_t step) = 0;
  // Answer: OnCheckpointCommitted.
  virtual void Commit(const std::string& folder,
                      const CheckpointManifest& manifest) = 0;
  virtual void Discard(const std::string& folder) = 0;
  // A checkpoint failed; `message` says why.
  virtual void Warn(int64_t step, const std::string& message) = 0;
};

// Not thread-safe.
class CheckpointDriver {
 public:
  // `ready` describes the job of `servers` servers, which goes on from version
  // `first`. `sink` may be null: no checkpoints.
  CheckpointDriver(const JobSpec& job, const Ready& ready, int servers,
                   int64_t first, CheckpointSink* sink);

  // What the sink and the servers answer goes there.
  CheckpointPlan* plan() { return &plan_; }
  const CheckpointPlan& plan() const { return plan_; }

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
  CheckpointManifest MakeManifest(const CheckpointPlan::Commit& commit,
                                  const JobProgress& progress) const;
  // But for its files.
  CheckpointManifest ManifestOf(int64_t version, const JobState& state) const;

  const JobSpec job_;
  const Rounds rounds_;
  const int servers_;
  CheckpointSink* const sink_;
  // What the manifests of all checkpoints have in common.
  CheckpointManifest common_;
  CheckpointPlan plan_;
  // Of the job at the plan's version.
  JobState saved_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_DRIVER_H_
