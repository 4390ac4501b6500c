// Measures a worker's progress and time statistics, which it sends in
// heartbeats.
#ifndef TRIBUTARY_WORKER_TRAINING_THREADS_WORK_TIMES_H_
#define TRIBUTARY_WORKER_TRAINING_THREADS_WORK_TIMES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/job/rounds.h"
#include "proto/rendezvous.pb.h"
#include "worker/state/work_state.h"
#include "worker/training/threads/compute_thread_timer.h"

namespace tributary {

// Measures the process's time by activity. The duration of a task is counted
// once, not once for each thread, and is divided among the activities in
// proportion to the times that the compute threads spent on them.
//
// BeginTask and EndTask must be called alternately, by the thread that runs
// tasks. Everything else is thread-safe.
class WorkTimes {
 public:
  // `rounds` must outlive this object.
  WorkTimes(const Rounds* rounds, const ComputeThreadTimer::Clock& clock,
            int threads);

  // Returns the timer that the compute thread updates.
  ComputeThreadTimer* timer(int thread) const { return timers_[thread].get(); }

  // Begins a task. `waited` is the time that the trainer waited for it.
  void BeginTask(const Task& task, absl::Duration waited)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the task, which took `taken`. All compute threads must be idle.
  void EndTask(absl::Duration taken) ABSL_LOCKS_EXCLUDED(mu_);
  // Counts a micro-batch whose computation took `taken`, and `cpu_seconds` of
  // CPU time.
  void CountMicroBatch(absl::Duration taken, double cpu_seconds)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns a heartbeat with the step, the phase and the statistics. The caller
  // sets the fields that this class does not know.
  Heartbeat Progress() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Returns the activity that most threads are engaged in, without counting
  // idle threads. If all threads are idle, returns kIdle before the first task,
  // and kExchange afterwards.
  Activity MainActivity() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Rounds& rounds_;
  // Indexed by thread.
  std::vector<std::unique_ptr<ComputeThreadTimer>> timers_;

  mutable absl::Mutex mu_;
  // Round of the newest task; -1 before the first. A round consists of several
  // steps with local SGD, and otherwise of one.
  int64_t round_ ABSL_GUARDED_BY(mu_) = -1;
  // The activity to which the time between the previous task and the next is
  // attributed.
  Activity waits_for_ ABSL_GUARDED_BY(mu_) = Activity::kExchange;
  TimeSpent spent_ ABSL_GUARDED_BY(mu_);  // Since the first task.
  absl::Duration micro_batch_time_ ABSL_GUARDED_BY(mu_);
  double micro_batch_cpu_seconds_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t micro_batches_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t steps_ ABSL_GUARDED_BY(mu_) = 0;
  // Newest round whose steps are included in steps_.
  int64_t newest_round_ ABSL_GUARDED_BY(mu_) = -1;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_THREADS_WORK_TIMES_H_
