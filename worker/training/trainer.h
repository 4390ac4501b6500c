// Carries out a worker's tasks: reads the batches, runs the model on every
// leaf, pushes the sums, evaluates.
#ifndef TRIBUTARY_WORKER_TRAINING_TRAINER_H_
#define TRIBUTARY_WORKER_TRAINING_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "proto/rendezvous.pb.h"
#include "worker/data/read_ahead.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/subtree_reducer.h"
#include "worker/state/work_state.h"
#include "worker/training/compute_thread_items.h"
#include "worker/training/compute_thread_timer.h"
#include "worker/training/training_setup.h"
#include "worker/training/work_times.h"

namespace tributary {

// Run is for one thread; Progress may be called from any.
class Trainer {
 public:
  struct Hooks {
    // Takes what is to be told to the coordinator. Called from any thread.
    std::function<void(const WorkerReport&)> report;
    // A step's leaves are computed and Progress knows of them. May be null.
    std::function<void()> step_done;
    // Takes lines for the log, which a person should see. May be null.
    std::function<void(const std::string&)> warn;
    // Measures where the time goes. Called from any thread.
    ComputeThreadTimer::Clock clock;
  };

  // All must outlive the trainer.
  Trainer(TrainingSetup* setup, WorkState* state, Exchange* exchange,
          Hooks hooks);

  // Until the job is finished (OK), the state has failed (its status) or a leaf
  // cannot be computed. When memory runs out, fewer leaves are computed at a
  // time, to the same result.
  absl::Status Run();

  // What it is doing, and the statistics that it knows.
  Heartbeat Progress() const;

 private:
  // Where models compute in the memory of a device.
  void PinWeights();
  void Initialize();
  // There was no memory for as many leaves at a time: goes on with fewer. The
  // error if there was none for a single one.
  absl::Status ComputeFewer(const absl::Status& reason);
  absl::Status Train(const Task& task);
  absl::Status TrainMicroBatch(const Task& task, int thread, int micro_batch,
                               ComputeThreadItems* items,
                               SubtreeReducer* reducer);
  // The same for a leaf of a round of local steps.
  absl::Status TrainLocalSteps(const Task& task, int thread, int micro_batch,
                               ComputeThreadItems* items,
                               SubtreeReducer* reducer);
  // What the leaf is computed from: what the lane has prefetched, if it is
  // that.
  std::shared_ptr<const Batch> TakeBatch(int thread, int64_t step,
                                         int micro_batch);
  // Has the lane's device fetch a leaf that it will probably compute next, if
  // it has been read. Never waits for reading.
  void Prefetch(int thread, int64_t step, int micro_batch);
  // The same for the one that follows those the lane has begun.
  void PrefetchNext(const Task& task, int thread, ComputeThreadItems* items);
  bool IsPrefetched(int64_t step, int micro_batch) const;
  // One step of the lane's trajectory: its gradients, on the host.
  absl::StatusOr<LossSums> LocalStep(const Batch& batch, int thread,
                                     int micro_batch, float* gradients,
                                     StepObserver* observer);
  // Once, if a lane's device does not capture its work.
  void WarnOfCaptures();
  absl::Status Evaluate(const Task& task);
  absl::Status EvaluatePiece(const Task& task, int thread, int64_t piece);
  // Runs work(lane, item) for every item, on all lanes. Of several errors, one
  // is returned, after all lanes are done.
  absl::Status RunOnThreads(
      ComputeThreadItems* items,
      const std::function<absl::Status(int thread, int64_t item)>& work);

  TrainingSetup* const setup_;
  WorkState* const state_;
  Exchange* const exchange_;
  const Hooks hooks_;
  ReadAhead read_ahead_;
  ThreadPool threads_;

  WorkTimes times_;
  // What a lane's device has been told to fetch. Its thread's during a task.
  struct Prefetched {
    int64_t step = 0;
    int micro_batch = 0;
    std::shared_ptr<const Batch> batch;  // Null: nothing.
  };
  std::vector<Prefetched> prefetched_;  // By lane.
  bool warned_of_captures_ = false;

  std::vector<std::shared_ptr<void>> pinned_;  // Of the state's weights.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_TRAINER_H_
