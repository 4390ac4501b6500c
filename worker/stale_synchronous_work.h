// A worker's work in mode stale_synchronous.
#ifndef TRIBUTARY_WORKER_STALE_SYNCHRONOUS_WORK_H_
#define TRIBUTARY_WORKER_STALE_SYNCHRONOUS_WORK_H_

#include <cstdint>

#include "worker/loose_work.h"

namespace tributary {

// Threads as WorkState. The leaves of a step may be computed as soon as every
// chunk has all but the last `staleness` of the steps before it.
class StaleSynchronousWork final : public LooseWork {
 public:
  // `staleness` is at least 1.
  StaleSynchronousWork(const Options& options, int64_t staleness,
                       const ArenaLayout* layout)
      : LooseWork(options, layout), staleness_(staleness) {}

 private:
  bool DecideTraining(int64_t version, Task* task) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool MustGiveUp(const Task& task) const override
      ABSL_SHARED_LOCKS_REQUIRED(mu_);

  const int64_t staleness_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STALE_SYNCHRONOUS_WORK_H_
