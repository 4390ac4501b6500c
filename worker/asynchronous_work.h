// A worker's work in mode asynchronous.
#ifndef TRIBUTARY_WORKER_ASYNCHRONOUS_WORK_H_
#define TRIBUTARY_WORKER_ASYNCHRONOUS_WORK_H_

#include <cstdint>
#include <map>

#include "worker/loose_work.h"

namespace tributary {

// Threads as WorkState. Whole batches of the steps that this worker has
// claimed. A claim is done when every chunk's outcome has come; if one of them
// says that the gradient was too old, the step is computed again. Two claims
// are held at a time, one to compute and one to read ahead: that also bounds
// what is sent and not yet taken.
class AsynchronousWork final : public LooseWork {
 public:
  AsynchronousWork(const Options& options, int leaves,
                   const ArenaLayout* layout)
      : LooseWork(options, layout), leaves_(leaves) {}

  void SetClaimed(int64_t step) override ABSL_LOCKS_EXCLUDED(mu_);
  void SetOutcome(const Outcome& outcome) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Claim {
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
  // The oldest step from `step` on that waits to be computed; -1: none.
  int64_t WaitingFrom(int64_t step) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  const int leaves_;

  std::map<int64_t, Claim> claims_ ABSL_GUARDED_BY(mu_);  // By step.
  int asked_ ABSL_GUARDED_BY(mu_) = 0;  // Claims that have not come yet.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_ASYNCHRONOUS_WORK_H_
