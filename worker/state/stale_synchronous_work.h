// Work state for stale_synchronous consistency.
#ifndef TRIBUTARY_WORKER_STATE_STALE_SYNCHRONOUS_WORK_H_
#define TRIBUTARY_WORKER_STATE_STALE_SYNCHRONOUS_WORK_H_

#include <cstdint>

#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "worker/state/bounded_staleness_work.h"

namespace tributary {

// Implements bounded staleness: the micro-batches of a step may be computed as
// soon as every chunk (slice of the weights) includes the updates of all but
// the last `staleness` preceding steps. A task prefers chunks that include
// these last steps, too: it waits for them, but in total for at most `patience`
// times the compute time of the previous task. See WorkState for thread safety.
class StaleSynchronousWork final : public BoundedStalenessWork {
 public:
  // Requires spec.staleness() >= 1.
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

  // Duration of the last training task, not counting its waits for weights.
  absl::Duration computing_ ABSL_GUARDED_BY(mu_);
  // Start of the task under way.
  absl::Time begin_ ABSL_GUARDED_BY(mu_);
  // The common deadline of the waits for newer weights in the task under way.
  // Set by the first wait.
  absl::Time patience_end_ ABSL_GUARDED_BY(mu_);
  int threads_waiting_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time waiting_since_ ABSL_GUARDED_BY(mu_);
  absl::Duration waited_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_STALE_SYNCHRONOUS_WORK_H_
