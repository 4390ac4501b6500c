// The threads that compute a task's items.
#ifndef TRIBUTARY_WORKER_TRAINING_COMPUTE_THREADS_H_
#define TRIBUTARY_WORKER_TRAINING_COMPUTE_THREADS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/thread_pool.h"
#include "common/trace/trace_recorder.h"
#include "worker/training/threads/compute_thread.h"
#include "worker/training/threads/compute_thread_items.h"
#include "worker/training/threads/compute_thread_timer.h"
#include "worker/training/threads/work_times.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Runs the items of tasks on compute threads, the first of which is the calling
// thread. Not thread-safe.
class ComputeThreads {
 public:
  using Work = std::function<absl::Status(int thread, int64_t item)>;

  // Creates the threads of `setup`. Traces steps with `trace`, unless it is
  // null. `setup` and `trace` must outlive this object.
  ComputeThreads(const TrainingSetup& setup, TraceRecorder* trace,
                 const ComputeThreadTimer::Clock& clock);

  // Runs work(thread, item) for every item of a task of version `version`, on
  // all threads over which `items` are distributed. Blocks until all threads
  // are done, then returns the first error, or ResourceExhausted if `work`
  // threw std::bad_alloc.
  absl::Status Run(int64_t version, ComputeThreadItems* items,
                   const Work& work);

  // While Run runs, only the thread itself may use the result.
  ComputeThread* thread(int thread) const { return threads_[thread].get(); }
  WorkTimes* times() { return &times_; }
  const WorkTimes& times() const { return times_; }

 private:
  const ComputeThreadTimer::Clock clock_;
  ThreadPool pool_;
  WorkTimes times_;
  std::vector<std::unique_ptr<ComputeThread>> threads_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_COMPUTE_THREADS_H_
