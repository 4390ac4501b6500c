// Computes the tasks of a worker that does not compute whole micro-batches one
// after the other.
#ifndef TRIBUTARY_WORKER_TRAINING_TASK_RUNNER_H_
#define TRIBUTARY_WORKER_TRAINING_TASK_RUNNER_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/step_gradients.h"
#include "worker/state/work_state.h"
#include "worker/training/threads/compute_thread.h"
#include "worker/training/training_batches.h"
#include "worker/training/training_setup.h"

namespace tributary {

// What a TaskRunner returns for a task that must be given up.
inline absl::Status TaskGivenUp() {
  return absl::AbortedError("the task was given up");
}

// Orders the passes of a task's micro-batches itself, because the worker
// computes only some layers of the model, or only some at a time. Used by one
// compute thread. A method returns TaskGivenUp if the task must be given up.
class TaskRunner {
 public:
  // What a runner uses. All pointers must outlive it.
  struct Tools {
    const TrainingSetup* setup = nullptr;
    TrainingBatches* batches = nullptr;
    WorkState* state = nullptr;
    Exchange* exchange = nullptr;
    ComputeThread* compute = nullptr;
    // Sends a report to the coordinator.
    std::function<void(const WorkerReport&)> report;
  };

  virtual ~TaskRunner() = default;

  // Sends version 0 of the chunks to which the worker contributes. Returns the
  // errors of TrainingSetup::MakeInitialWeights.
  virtual absl::Status Initialize() = 0;
  // Computes the task's micro-batches, and passes their gradients to `step`.
  virtual absl::Status Train(const Task& task, StepGradients* step) = 0;
  // Evaluates the task's pieces of the held-out data, and reports the results.
  virtual absl::Status Evaluate(const Task& task) = 0;
  // Returns the generation of the Stage order that the worker follows, or 0.
  virtual int64_t generation() const { return 0; }
  // True if the worker reads the batches of training data.
  virtual bool reads_batches() const { return true; }
  // Returns the memory for the weights, gradients and activations of a step
  // with this number of micro-batches. Weights in memory that a server shares
  // are counted there. Thread-safe.
  virtual MemoryAccount Memory(int micro_batches, bool shares_memory) const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_TASK_RUNNER_H_
