// How far a worker is, and where its time goes: what heartbeats say.
#ifndef TRIBUTARY_WORKER_TRAINING_WORK_TIMES_H_
#define TRIBUTARY_WORKER_TRAINING_WORK_TIMES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/job/rounds.h"
#include "proto/rendezvous.pb.h"
#include "worker/state/work_state.h"
#include "worker/training/compute_thread_timer.h"

namespace tributary {

// Counts the time of a process once, however many lanes compute at the same
// time: a task's is divided as the lanes' times are. BeginTask and EndTask are
// for the thread that runs tasks, in turn; the rest is thread-safe.
class WorkTimes {
 public:
  // `rounds` must outlive this object.
  WorkTimes(const Rounds* rounds, const ComputeThreadTimer::Clock& clock,
            int threads);

  // For the lane's thread.
  ComputeThreadTimer* timer(int thread) const { return timers_[thread].get(); }

  // `waited` for the task.
  void BeginTask(const Task& task, absl::Duration waited)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The task took so long; the lanes, which are idle now, say for what.
  void EndTask(absl::Duration taken) ABSL_LOCKS_EXCLUDED(mu_);
  // A leaf is computed; it took a lane so long.
  void CountMicroBatch(absl::Duration taken) ABSL_LOCKS_EXCLUDED(mu_);

  // Step, phase and statistics, but for what only others know.
  Heartbeat Progress() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // What most of the lanes do that do anything.
  Activity MainActivity() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Rounds& rounds_;
  std::vector<std::unique_ptr<ComputeThreadTimer>> timers_;  // By lane.

  mutable absl::Mutex mu_;
  // Of the newest task; -1: none yet.
  int64_t round_ ABSL_GUARDED_BY(mu_) = -1;
  // What comes between the newest task and the next one.
  Activity waits_for_ ABSL_GUARDED_BY(mu_) = Activity::kExchange;
  TimeSpent spent_ ABSL_GUARDED_BY(mu_);  // Since the first task.
  absl::Duration micro_batch_time_ ABSL_GUARDED_BY(mu_);
  int64_t micro_batches_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t steps_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t newest_round_ ABSL_GUARDED_BY(mu_) = -1;  // That steps_ counts.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_WORK_TIMES_H_
