// Executes a worker's tasks: reads batches, computes micro-batches, pushes
// gradient sums, and evaluates.
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
#include "common/trace/trace_recorder.h"
#include "proto/rendezvous.pb.h"
#include "worker/data/read_ahead.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/subtree_reducer.h"
#include "worker/state/work_state.h"
#include "worker/training/compute_thread_items.h"
#include "worker/training/compute_thread_timer.h"
#include "worker/training/compute_trace.h"
#include "worker/training/micro_batch_observer.h"
#include "worker/training/training_setup.h"
#include "worker/training/work_times.h"

namespace tributary {

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

  // All arguments must outlive the trainer.
  Trainer(TrainingSetup* setup, WorkState* state, Exchange* exchange,
          Hooks hooks);

  // Runs tasks until the job is finished, and then returns OK. If the WorkState
  // fails, returns its status. If a micro-batch cannot be computed, returns the
  // error. If memory runs out, continues with fewer compute threads and the
  // same result, or returns ResourceExhausted if this is not possible.
  absl::Status Run();

  // Returns the current activity and the trainer's statistics.
  Heartbeat Progress() const;

 private:
  // Pins the host memory of the weights; see TrainingSetup::pin.
  void PinWeights();
  // Initializes the weights (version 0) and sends them to the servers.
  absl::Status Initialize();
  // Halves the number of compute threads after memory ran out; `reason` is the
  // error. Returns ResourceExhausted, with a message that says what the user
  // can change, if only one thread was in use, or if the device of a thread
  // that would remain has failed.
  absl::Status ComputeFewer(const absl::Status& reason);
  absl::Status Train(const Task& task);
  // Computes the gradients of one micro-batch of `task` on compute thread
  // `thread`, and passes them to `reducer`. Returns Aborted if the task must be
  // given up.
  absl::Status TrainMicroBatch(const Task& task, int thread, int micro_batch,
                               ComputeThreadItems* items,
                               SubtreeReducer* reducer);
  // Sets the fields of `work` that state where the task's weights are. Sets
  // `work->arena` to a gradient arena of the exchange, unless the gradients are
  // summed in device memory and the micro-batch does not complete a sum.
  void TakeArena(const Task& task, MicroBatchObserver::MicroBatch* work);
  // Takes the local steps of one round of local SGD for one micro-batch of
  // `task` on compute thread `thread`, and passes the outer gradient (initial
  // minus final weights of the round) to `reducer`. Returns Aborted if the task
  // must be given up.
  absl::Status TrainLocalSteps(const Task& task, int thread, int micro_batch,
                               ComputeThreadItems* items,
                               SubtreeReducer* reducer);
  // Returns the micro-batch's data: the thread's prefetched batch if it belongs
  // to this micro-batch, otherwise the batch that read_ahead_ returns.
  std::shared_ptr<const Batch> TakeBatch(int thread, int64_t step,
                                         int micro_batch);
  // If the micro-batch's data have been read, starts to transfer them to the
  // thread's device. The micro-batch is expected to be the thread's next one.
  // Never waits for reads.
  void Prefetch(int thread, int64_t step, int micro_batch);
  // Prefetches the micro-batch that the thread is expected to compute next.
  void PrefetchNext(const Task& task, int thread, ComputeThreadItems* items);
  // Returns true if Prefetch has started to transfer the micro-batch to a
  // compute thread's device, and that thread has not taken the data yet.
  bool IsPrefetched(int64_t step, int micro_batch) const;
  // Computes the gradients of one local step on the thread's device, and writes
  // them to `gradients`, a host arena.
  absl::StatusOr<LossSums> LocalStep(const Batch& batch, int thread,
                                     int micro_batch, float* gradients,
                                     StepObserver* observer);
  // Logs a warning once if a device has stopped capturing its operations as
  // CUDA graphs.
  void WarnOfCaptures();
  absl::Status Evaluate(const Task& task);
  absl::Status EvaluatePiece(const Task& task, int thread, int64_t piece);
  // Creates a ComputeTrace for each thread if steps are traced.
  void BeginTrace();
  // Returns the trace of the thread, or null if no step is traced.
  ComputeTrace* TraceOf(int thread) const {
    return traces_.empty() ? nullptr : traces_[thread].get();
  }
  // Runs work(thread, item) for every item, on all compute threads. Blocks
  // until all threads are done, then returns the first error.
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
  // Indexed by thread; empty if no step is traced.
  std::vector<std::unique_ptr<ComputeTrace>> traces_;
  // The batch that a thread's device is prefetching. Accessed by that thread
  // while RunOnThreads runs, and otherwise by the thread that called Run.
  struct Prefetched {
    int64_t step = 0;
    int micro_batch = 0;
    std::shared_ptr<const Batch> batch;  // Null if there is none.
  };
  std::vector<Prefetched> prefetched_;  // Indexed by thread.
  bool warned_of_captures_ = false;

  std::vector<std::shared_ptr<void>> pinned_;  // Keeps the weights pinned.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_TRAINER_H_
