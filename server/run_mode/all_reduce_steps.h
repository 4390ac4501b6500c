// The run mode of an all-reduce.
#ifndef TRIBUTARY_SERVER_RUN_MODE_ALL_REDUCE_STEPS_H_
#define TRIBUTARY_SERVER_RUN_MODE_ALL_REDUCE_STEPS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "server/run_mode/all_reduce_group.h"
#include "server/run_mode/pipeline_steps.h"
#include "server/run_mode/run_mode.h"

namespace tributary {

// The run mode of an all-reduce. The workers that have all weights when work is
// first assigned form a group for the whole attempt; the group has at most as
// many members as a step has micro-batches. The members sum gradients and
// update weights among themselves, and send their state to the server for
// checkpoints and for the final model. The loss of a member ends the attempt.
// Workers that join later wait for the next attempt. If they would enlarge the
// group, the coordinator ends the attempt after the next checkpoint.
//
// In a pipeline, workers get stages as in PipelineSteps until the group is
// formed, from the workers of all replicas that are complete.
class AllReduceSteps final : public RunMode {
 public:
  // `stages` is null unless the job has a pipeline.
  AllReduceSteps(const JobSpec& job, Membership* membership,
                 ServerRoster* servers, std::unique_ptr<PipelineSteps> stages)
      : RunMode(job, membership, servers),
        stages_(std::move(stages)),
        group_(membership) {}

  absl::Status OnReady(int64_t worker, const Ready& ready) override;
  void Begin(int64_t version, const Ready& ready) override;
  absl::StatusOr<std::vector<std::string>> ChooseStages() override;
  std::map<int64_t, std::vector<CoordinatorOrder>> OrderStages(
      absl::Time now) override;
  bool OnSynced(const Member& worker, const Synced& synced) override;

  // Assigns the work and forms the group in the first call or, in a pipeline,
  // in the first call with a complete replica. Later calls return no orders,
  // because the assignment is fixed.
  std::map<int64_t, std::vector<CoordinatorOrder>> Assign(
      int64_t pieces, absl::Time now) override;

  // Returns, while a pipeline has no complete replica, a worker that it waits
  // for. Otherwise, a member that has published nothing although others have,
  // that has
  // not saved its state of `step` although others
  // have, that has not finished its micro-batches, or that has computed fewer
  // steps than others, according to the heartbeats.
  const Member* Awaited(int64_t step) const override;
  absl::Status CheckReportsSums(int64_t worker) const override;
  absl::Status Publish(int64_t worker, const Publication& publication) override;

  void RemoveWorker(int64_t worker) override;
  absl::Status OnWorkerLost(int64_t worker, const std::string& name) override;

  // Requests the members' state for the checkpoint that `order` describes. If
  // `kept` is true, requests nothing, because the members send the state of
  // this version without a request. OrderWaitingSnapshot later orders the
  // server to write the state.
  void OrderSnapshot(const ServerOrder& order, bool kept) override;
  std::optional<SnapshotReport> OnSaved(int64_t worker,
                                        const Saved& saved) override;
  void OrderWaitingSnapshot(int64_t completed) override;
  bool HasState(int64_t version) const override;
  absl::Status OnCheckpoint() const override;

 private:
  // Returns the number of members that a group could have.
  int Places() const;

  const std::unique_ptr<PipelineSteps> stages_;  // Null without a pipeline.
  AllReduceGroup group_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_ALL_REDUCE_STEPS_H_
