// Work state for asynchronous consistency.
#ifndef TRIBUTARY_WORKER_STATE_ASYNCHRONOUS_WORK_H_
#define TRIBUTARY_WORKER_STATE_ASYNCHRONOUS_WORK_H_

#include <cstdint>
#include <map>
#include <vector>

#include "worker/state/bounded_staleness_work.h"

namespace tributary {

// Schedules whole batches: every task computes all micro-batches of one step,
// for which this worker holds a step lease, the right of one worker to compute
// that step. See WorkState for thread safety.
//
// The server of a chunk answers each gradient with an outcome: applied, or
// refused as too stale. When the outcomes of a step have arrived for all
// chunks, its step lease ends. If one of the gradients was refused, this worker
// instead keeps the lease and computes the step again. A task takes a chunk
// only after the outcomes of all gradients that this worker has sent for that
// chunk have arrived, so only other workers' updates can make its gradients
// stale. The worker holds up to three step leases: for a step whose gradients
// are in flight, for a step to compute, and for a step whose data are read
// ahead. This limit also bounds the gradients in flight.
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
    // True while the step waits to be computed: initially, until a task begins
    // to compute it. If a gradient is refused, true again once all outcomes
    // have arrived.
    bool waiting = true;
    // True if an outcome refused a gradient as too stale.
    bool refused = false;
    // Number of chunks whose outcome has arrived since the step was last
    // computed.
    int answered = 0;
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
  // Returns the oldest step at or after `step` that is waiting to be computed,
  // or -1 if there is none.
  int64_t WaitingFrom(int64_t step) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  const int micro_batches_;

  // Indexed by step.
  std::map<int64_t, StepLease> step_leases_ ABSL_GUARDED_BY(mu_);
  // Number of gradients that have been sent and whose outcome has not arrived,
  // indexed by chunk. MarkDone counts a gradient as sent, so an outcome that
  // arrives before MarkDone temporarily makes the number -1.
  std::vector<int> unanswered_ ABSL_GUARDED_BY(mu_);
  // Number of step leases that have been requested and not yet granted.
  int asked_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_ASYNCHRONOUS_WORK_H_
