// Carries out the decisions of a CheckpointPlan.
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

// Performs the disk operations of checkpoints. Methods are called with the
// coordinator's lock held: they must not block and must not call the
// coordinator on this thread.
class CheckpointSink {
 public:
  virtual ~CheckpointSink() = default;
  // Calls Coordinator::OnCheckpointFolder when done.
  virtual void MakeFolder(int64_t step) = 0;
  // Calls Coordinator::OnCheckpointCommitted when done.
  virtual void Commit(const std::string& folder,
                      const CheckpointManifest& manifest) = 0;
  virtual void Discard(const std::string& folder) = 0;
  // Reports that a checkpoint failed; `message` is the reason.
  virtual void Warn(int64_t step, const std::string& message) = 0;
};

// Builds manifests and calls a CheckpointSink as the plan requires. Not
// thread-safe.
class CheckpointDriver {
 public:
  // `ready` describes the model and the data. The attempt begins at version
  // `first`. A null `sink` disables checkpoints.
  CheckpointDriver(const JobSpec& job, const Ready& ready, int servers,
                   int64_t first, CheckpointSink* sink);

  // Pass the answers of the sink and the servers to the plan.
  CheckpointPlan* plan() { return &plan_; }
  const CheckpointPlan& plan() const { return plan_; }

  // Records the job's state when a round is complete. Call it before reports of
  // the next round.
  void OnRound(const JobProgress& progress);
  // Executes all actions that are due. `earliest` is the first version that may
  // be chosen for a checkpoint. `order` sends an order to all servers.
  void Run(const JobProgress& progress, int64_t earliest,
           const std::function<void(const ServerOrder&)>& order);

  // The manifest of the finished model, without files.
  CheckpointManifest FinalManifest(const JobProgress& progress) const;

  // Steps done in the newest checkpoint. -1: there is none.
  int64_t committed_step() const;

 private:
  CheckpointManifest MakeManifest(const CheckpointPlan::Commit& commit,
                                  const JobProgress& progress) const;
  // The manifest without its files.
  CheckpointManifest ManifestOf(int64_t version, const JobState& state) const;

  const JobSpec job_;
  const Rounds rounds_;
  const int servers_;
  CheckpointSink* const sink_;
  // The fields that all checkpoints' manifests share.
  CheckpointManifest common_;
  CheckpointPlan plan_;
  // The job's state at the plan's version.
  JobState saved_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_DRIVER_H_
