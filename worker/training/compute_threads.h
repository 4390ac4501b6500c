// The threads that compute a task's items, and the measurement of their work.
#ifndef TRIBUTARY_WORKER_TRAINING_COMPUTE_THREADS_H_
#define TRIBUTARY_WORKER_TRAINING_COMPUTE_THREADS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/thread_pool.h"
#include "common/trace/trace_recorder.h"
#include "worker/training/compute_thread_items.h"
#include "worker/training/compute_thread_timer.h"
#include "worker/training/compute_trace.h"
#include "worker/training/training_setup.h"
#include "worker/training/work_times.h"

namespace tributary {

// Runs the items of tasks on compute threads, the first of which is the calling
// thread, and measures and traces what the threads do. Run must not be called
// by two threads at once. While it runs, each compute thread may call the
// methods that take its number.
class ComputeThreads {
 public:
  // Creates the threads of `setup`. Traces steps with `trace`, unless it is
  // null. `setup` and `trace` must outlive this object.
  ComputeThreads(const TrainingSetup& setup, TraceRecorder* trace,
                 const ComputeThreadTimer::Clock& clock);

  // Runs work(thread, item) for every item, on all threads over which `items`
  // are distributed. Blocks until all threads are done, then returns the first
  // error, or ResourceExhausted if `work` threw std::bad_alloc.
  absl::Status Run(
      ComputeThreadItems* items,
      const std::function<absl::Status(int thread, int64_t item)>& work);

  // Begins the trace of an item of a task of version `version`.
  void BeginItem(int thread, int64_t version, int64_t item);
  // Begins a micro-batch, including its trace, and ends it. EndMicroBatch
  // counts the micro-batch; it is not called if the micro-batch has failed.
  void BeginMicroBatch(int thread, int64_t version, int micro_batch);
  void EndMicroBatch(int thread);
  ComputeThreadTimer* timer(int thread) const { return times_.timer(thread); }
  // Returns the object that receives the times of layers, or null if the
  // current step is not traced.
  LayerObserver* layers(int thread) const {
    return traces_.empty() ? nullptr : traces_[thread]->layers();
  }
  // If steps are traced, records that the calling thread has waited from
  // `begin` until now to begin the step.
  void Waited(int64_t step, absl::Time begin);

  WorkTimes* times() { return &times_; }
  const WorkTimes& times() const { return times_; }

 private:
  // Returns the time that determines how many micro-batches the worker can
  // compute.
  absl::Duration MicroBatchTime(int thread) const;

  const ComputeThreadTimer::Clock clock_;
  ThreadPool threads_;
  WorkTimes times_;
  // Indexed by thread; empty if no step is traced.
  std::vector<std::unique_ptr<ComputeTrace>> traces_;
  // MicroBatchTime when the current micro-batch began, indexed by thread.
  std::vector<absl::Duration> before_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_COMPUTE_THREADS_H_
