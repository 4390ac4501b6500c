// A worker's part in a pipeline.
#ifndef TRIBUTARY_WORKER_PROCESS_PIPELINE_PART_H_
#define TRIBUTARY_WORKER_PROCESS_PIPELINE_PART_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/pipeline/pipeline_schedule.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/stages/pipeline_peers.h"
#include "worker/exchange/stages/stage_port.h"
#include "worker/exchange/stages/transfer_plan.h"
#include "worker/models/stages/stage_split.h"
#include "worker/process/membership_client.h"
#include "worker/process/worker_part.h"
#include "worker/process/worker_process.h"
#include "worker/state/work_state.h"
#include "worker/training/stage_runner.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Returns Ready.memory_bytes, where 0 stands for unknown, of a worker that can
// still allocate `available` bytes (see AvailableMemoryBytes).
int64_t ReadyMemoryBytes(std::optional<int64_t> available);

// Computes the stages that the coordinator orders, one Stage order after the
// other, or waits as a spare. Serves transfers to the workers of other stages.
// Not thread-safe.
class PipelinePart {
 public:
  // Describes the model, whose layers it may measure, and starts to listen. All
  // arguments must outlive this object.
  // Returns InvalidArgument if the model cannot be divided as the job says, and
  // the errors of WorkerNetwork::AcceptTransfers.
  static absl::StatusOr<std::unique_ptr<PipelinePart>> Create(
      const WorkerOptions& options, const Admission& admission,
      TrainingSetup* setup, MembershipClient* membership);
  ~PipelinePart();

  // Adds the segments of the model, and the memory and the addresses of this
  // worker.
  void FillReady(Ready* ready) const;
  // Follows the coordinator's orders until the job is done. `open` is the
  // result of MembershipClient::AwaitOpen. `on_state` receives each WorkState,
  // and `waiting`, the one that is attached to the membership while the worker
  // has no stages, before it is destroyed.
  absl::Status Run(WorkerPart* part, const Open& open,
                   const WorkState::Options& state_options, WorkState* waiting,
                   const std::function<void(WorkState*)>& on_state);

 private:
  PipelinePart(const WorkerOptions& options, const Admission& admission,
               TrainingSetup* setup, MembershipClient* membership);

  // Sets split_ to the division at `cuts`, and plans the transfers.
  absl::Status Adopt(const std::vector<int>& cuts);
  // Computes the stages of an order until the next one.
  absl::Status Compute(const Stage& stage, WorkerPart* part, const Open& open,
                       const WorkState::Options& state_options,
                       WorkState* waiting,
                       const std::function<void(WorkState*)>& on_state);
  // Connects to the servers or, in an all-reduce, to the other members.
  absl::StatusOr<std::unique_ptr<Exchange>> Connect(const StagePart& stages,
                                                    WorkerPart* part,
                                                    const Open& open,
                                                    WorkState* state);
  void OnDeal(const Deal& deal) ABSL_LOCKS_EXCLUDED(mu_);
  PipelinePlace PlaceIn(int64_t generation) const ABSL_LOCKS_EXCLUDED(mu_);

  const WorkerOptions& options_;
  const Admission& admission_;
  TrainingSetup& setup_;
  MembershipClient* const membership_;
  const PipelineSchedule schedule_;
  std::vector<StageSegment> segments_;
  // The division that the coordinator has decided on.
  StageSplit split_;
  std::unique_ptr<TransferPlan> plan_;
  // The port ends before the peers, to which it delivers.
  std::unique_ptr<PipelinePeers> peers_;
  std::unique_ptr<StagePort> port_;

  mutable absl::Mutex mu_;
  std::map<int64_t, PipelinePlace> places_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_PIPELINE_PART_H_
