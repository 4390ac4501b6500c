// Carries out a worker's tasks: reads the batches, runs the model on every
// leaf, pushes the sums, evaluates.
#ifndef TRIBUTARY_WORKER_TRAINER_H_
#define TRIBUTARY_WORKER_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/thread_pool.h"
#include "proto/rendezvous.pb.h"
#include "worker/data/read_ahead.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/subtree_reducer.h"
#include "worker/training_setup.h"
#include "worker/work_state.h"

namespace tributary {

// Run is for one thread; Progress may be called from any.
class Trainer {
 public:
  using Report = std::function<void(const WorkerReport&)>;

  // All must outlive the trainer. `report` must be thread-safe.
  Trainer(const TrainingSetup* setup, WorkState* state, Exchange* exchange,
          Report report);

  // Until the job is finished (OK), the state has failed (its status) or a leaf
  // cannot be computed.
  absl::Status Run();

  // What it is doing, and the statistics that it knows.
  Heartbeat Progress() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class LeafObserver;
  // Where the lanes' wall time went.
  struct Times {
    absl::Duration compute;
    absl::Duration exchange;
    absl::Duration data;
    absl::Duration evaluation;
  };

  void Initialize();
  absl::Status Train(const Task& task);
  absl::Status TrainLeaf(const Task& task, int lane, int leaf,
                         SubtreeReducer* reducer);
  absl::Status Evaluate(const Task& task);
  absl::Status EvaluatePiece(const Task& task, int lane, int64_t piece);
  // Runs work(lane, item) for every item, on all lanes. Of several errors, one
  // is returned, after all lanes are done.
  absl::Status OnLanes(
      const std::vector<int64_t>& items,
      const std::function<absl::Status(int lane, int64_t item)>& work);
  void SetPhase(const char* phase, int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  void Add(const Times& times, int leaves) ABSL_LOCKS_EXCLUDED(mu_);

  const TrainingSetup* const setup_;
  WorkState* const state_;
  Exchange* const exchange_;
  const Report report_;
  ReadAhead read_ahead_;
  ThreadPool lanes_;

  mutable absl::Mutex mu_;
  std::string phase_ ABSL_GUARDED_BY(mu_) = "idle";
  int64_t step_ ABSL_GUARDED_BY(mu_) = 0;
  Times times_ ABSL_GUARDED_BY(mu_);  // Summed over lanes.
  int64_t leaves_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINER_H_
