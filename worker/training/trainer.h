// Executes a worker's tasks: computes micro-batches, whose gradients it passes
// to the exchange, and evaluates.
#ifndef TRIBUTARY_WORKER_TRAINING_TRAINER_H_
#define TRIBUTARY_WORKER_TRAINING_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/numerics/loss_sum.h"
#include "common/trace/trace_recorder.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/step_gradients.h"
#include "worker/models/stages/layerwise_model.h"
#include "worker/nn/step_observer.h"
#include "worker/state/work_state.h"
#include "worker/training/compute_threads.h"
#include "worker/training/evaluator.h"
#include "worker/training/stage_runner.h"
#include "worker/training/task_runner.h"
#include "worker/training/threads/compute_thread_items.h"
#include "worker/training/threads/compute_thread_timer.h"
#include "worker/training/training_batches.h"
#include "worker/training/training_rows.h"
#include "worker/training/training_setup.h"

namespace tributary {

// How a worker computes if not whole micro-batches one after the other. At most
// one of the pointers is not null; the objects must outlive the trainer.
struct ComputedParts {
  const StagePart* stages = nullptr;  // Stages of a pipeline.
  LayerwiseModel* layers = nullptr;   // Layer by layer.
};

// Runs the tasks that a WorkState selects, on several compute threads.
// Thread-compatible, except that Progress may be called from any thread.
class Trainer {
 public:
  struct Hooks {
    // Sends a report to the coordinator. Called from any thread.
    std::function<void(const WorkerReport&)> report;
    // Called when this worker has computed its micro-batches of a step and
    // Progress reports them. May be null.
    std::function<void()> step_done;
    // Logs a warning. If null, warnings are dropped.
    std::function<void(const std::string&)> warn;
    // Records the traced steps. Null if no step is traced. Must outlive the
    // trainer.
    TraceRecorder* trace = nullptr;
    // The clock for time measurements. Called from any thread.
    ComputeThreadTimer::Clock clock;
  };

  // All arguments must outlive the trainer. See ComputedParts for `parts`.
  Trainer(TrainingSetup* setup, WorkState* state, Exchange* exchange,
          Hooks hooks, const ComputedParts& parts = {});

  // Runs tasks until the job is finished, and then returns OK. If the WorkState
  // fails, returns its status. If a micro-batch cannot be computed, returns the
  // error. If memory runs out, continues with fewer compute threads and the
  // same result, or returns ResourceExhausted if this is not possible.
  absl::Status Run();

  // Returns the current activity and the trainer's statistics.
  Heartbeat Progress() const;
  // Returns null if the worker computes whole micro-batches one after the
  // other.
  const TaskRunner* runner() const { return runner_.get(); }

 private:
  // Pins the host memory of the weights; see TrainingSetup::pin.
  void PinWeights();
  // Passes the last weights to TrainingSources::on_last_weights.
  absl::Status GiveLastWeights(int64_t version);
  // Initializes the weights (version 0) and sends them to the servers.
  absl::Status Initialize();
  // Runs a task that trains or evaluates.
  absl::Status Compute(const Task& task);
  // Halves the number of compute threads after memory ran out; `reason` is the
  // error. Returns ResourceExhausted, with a message that says what the user
  // can change, if only one thread was in use, or if the device of a thread
  // that would remain has failed.
  absl::Status ComputeFewer(const absl::Status& reason);
  absl::Status Train(const Task& task);
  // Computes a task with runner_.
  absl::Status ComputeParts(const Task& task);
  // Records that the gradients of a task have been passed on.
  absl::Status MarkTrained(const Task& task);
  // Computes the gradients of one micro-batch of `task` on compute thread
  // `thread`, and passes them to `step`. Returns Aborted if the task must be
  // given up.
  absl::Status TrainMicroBatch(const Task& task, int thread, int micro_batch,
                               ComputeThreadItems* items, StepGradients* step);
  // The same for a model that reads rows of tables.
  absl::Status TrainWithRows(const Task& task, int thread, int micro_batch,
                             ComputeThreadItems* items, StepGradients* step);
  // Computes the gradients of a batch, also those of Batch::vectors unless
  // `vector_gradients` is null. Returns the number of samples that count.
  absl::StatusOr<int64_t> TrainBatch(const Task& task, int thread,
                                     int micro_batch, const Batch& batch,
                                     float* vector_gradients,
                                     ComputeThreadItems* items,
                                     StepGradients* step);
  // Takes the local steps of one round of local SGD for one micro-batch of
  // `task` on compute thread `thread`, and passes the outer gradient (initial
  // minus final weights of the round) to `round`. Returns Aborted if the task
  // must be given up.
  absl::Status TrainLocalSteps(const Task& task, int thread, int micro_batch,
                               ComputeThreadItems* items, StepGradients* round);
  // Takes one local step. Uses `arena`, a host arena, for the gradients.
  // Returns the sum of the losses.
  absl::StatusOr<LossSum> LocalStep(const Task& task, const Batch& batch,
                                    int thread, int micro_batch, float* arena,
                                    StepObserver* observer);
  // Logs a warning once if a device has stopped capturing its operations as
  // CUDA graphs.
  void WarnOfCaptures();

  TrainingSetup* const setup_;
  WorkState* const state_;
  Exchange* const exchange_;
  const Hooks hooks_;
  TrainingBatches batches_;
  std::unique_ptr<TrainingRows> rows_;  // Null in jobs without tables.
  ComputeThreads threads_;
  Evaluator evaluator_;
  std::unique_ptr<TaskRunner> runner_;
  bool warned_of_captures_ = false;
  std::vector<std::shared_ptr<void>> pinned_;  // Keeps the weights pinned.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_TRAINER_H_
