// A worker's work in mode stale_synchronous.
#ifndef TRIBUTARY_WORKER_STATE_STALE_SYNCHRONOUS_WORK_H_
#define TRIBUTARY_WORKER_STATE_STALE_SYNCHRONOUS_WORK_H_

#include <cstdint>

#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "worker/state/bounded_staleness_work.h"

namespace tributary {

// Threads as WorkState. The leaves of a step may be computed as soon as every
// chunk has all but the last `staleness` of the steps before it. Chunks that do
// not have all of them are waited for a while, `patience` times what the task
// before took without its waiting, in each task as a whole.
class StaleSynchronousWork final : public BoundedStalenessWork {
 public:
  // Its staleness is at least 1.
  StaleSynchronousWork(const Options& options, const StaleSynchronousSpec& spec,
                       const ArenaLayout* layout)
      : BoundedStalenessWork(options, layout),
        staleness_(spec.staleness()),
        patience_(spec.patience()) {}

  void MarkDone(const Task& task) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool DecideTraining(int64_t version, Task* task) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool MustGiveUp(const Task& task) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_);

  void OnTaskBegin(const Task& task) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ShouldTake(const Task& task, int chunk) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return VersionOf(chunk) >= task.version;
  }
  absl::Time OnWaitBegin() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnWaitEnd() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const int64_t staleness_;
  const double patience_;

  // What the last task that trained took without its waiting.
  absl::Duration computing_ ABSL_GUARDED_BY(mu_);
  // Of the task under way.
  absl::Time begin_ ABSL_GUARDED_BY(mu_);
  absl::Time patience_end_ ABSL_GUARDED_BY(mu_);  // Set by its first wait.
  int threads_waiting_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time waiting_since_ ABSL_GUARDED_BY(mu_);
  absl::Duration waited_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_STALE_SYNCHRONOUS_WORK_H_
