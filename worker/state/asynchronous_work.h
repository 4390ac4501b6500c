// A worker's work in mode asynchronous.
#ifndef TRIBUTARY_WORKER_STATE_ASYNCHRONOUS_WORK_H_
#define TRIBUTARY_WORKER_STATE_ASYNCHRONOUS_WORK_H_

#include <cstdint>
#include <map>
#include <vector>

#include "worker/state/bounded_staleness_work.h"

namespace tributary {

// Threads as WorkState. Whole batches of the steps that this worker has
// claimed. A claim is done when every chunk's outcome has come; if one of them
// says that the gradient was too old, the step is computed again. A task comes
// to a chunk when the outcomes of this worker's own gradients are there: so
// only other workers' make its weights old. Three claims are held at a time,
// one that is on its way to the servers, one to compute and one to read ahead:
// that also bounds what is sent and not yet taken.
class AsynchronousWork final : public BoundedStalenessWork {
 public:
  AsynchronousWork(const Options& options, int micro_batches,
                   const ArenaLayout* layout)
      : BoundedStalenessWork(options, layout),
        micro_batches_(micro_batches),
        unanswered_(layout->chunk_count(), 0) {}

  void AddStepLease(int64_t step) override ABSL_LOCKS_EXCLUDED(mu_);
  void SetOutcome(const Outcome& outcome) override ABSL_LOCKS_EXCLUDED(mu_);
  void MarkDone(const Task& task) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct StepLease {
    bool waiting = true;  // To be computed, for the first time or again.
    bool refused = false;
    int answered = 0;  // Chunks whose outcome has come since it was computed.
  };

  bool DecideTraining(int64_t version, Task* task) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool MustGiveUp(const Task& task) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void OnTaskBegin(const Task& task) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ShouldTake(const Task& /*task*/, int chunk) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return unanswered_[chunk] == 0;
  }
  // The oldest step from `step` on that waits to be computed; -1: none.
  int64_t WaitingFrom(int64_t step) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  const int micro_batches_;

  std::map<int64_t, StepLease> step_leases_ ABSL_GUARDED_BY(mu_);  // By step.
  // By chunk: gradients sent without an outcome. During a task, that of its own
  // may come before the task is over: -1.
  std::vector<int> unanswered_ ABSL_GUARDED_BY(mu_);
  int asked_ ABSL_GUARDED_BY(mu_) = 0;  // Claims that have not come yet.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_ASYNCHRONOUS_WORK_H_
