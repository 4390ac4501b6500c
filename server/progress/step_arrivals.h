// The arrival times of each worker's last contribution to a step at one server.
#ifndef TRIBUTARY_SERVER_PROGRESS_STEP_ARRIVALS_H_
#define TRIBUTARY_SERVER_PROGRESS_STEP_ARRIVALS_H_

#include <cstdint>
#include <functional>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Records, for each step, when each worker's last contribution arrives at this
// server. Thread-safe.
class StepArrivals {
 public:
  using Clock = std::function<absl::Time()>;
  explicit StepArrivals(Clock clock);

  // Records that a contribution (a gradient sum) has arrived now. `incarnation`
  // is the number that the sending worker got when it joined. Call it before
  // the contribution is passed to the store, because the contribution may
  // complete the step. Ignores steps up to the newest step that was passed to
  // Take, and steps more than 1024 after that step.
  void Add(int64_t step, int64_t incarnation) ABSL_LOCKS_EXCLUDED(mu_);

  // Writes to `sums` which workers contributed to the step, and when each
  // worker's last contribution arrived, in seconds since the step's first
  // contribution. Discards the records of this step and of all older steps.
  void Take(int64_t step, StepSums* sums) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Step {
    absl::Time first;
    // Time of each worker's last contribution, indexed by incarnation.
    std::map<int64_t, absl::Time> last;
  };

  const Clock clock_;
  absl::Mutex mu_;
  std::map<int64_t, Step> open_ ABSL_GUARDED_BY(mu_);
  int64_t taken_ ABSL_GUARDED_BY(mu_) = -1;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_STEP_ARRIVALS_H_
