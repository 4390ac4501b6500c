// When each worker's last contribution to a step came in at one server.
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

// Thread-safe.
class StepArrivals {
 public:
  using Clock = std::function<absl::Time()>;
  explicit StepArrivals(Clock clock);

  // A contribution of this worker has come in. To be called before it is used:
  // it may be the one that completes the step. What is too far ahead of the
  // steps taken is not noted; nor is what comes after Take.
  void Add(int64_t step, int64_t incarnation) ABSL_LOCKS_EXCLUDED(mu_);

  // Writes who contributed to the step, and when, to `sums`, and forgets this
  // step and older ones.
  void Take(int64_t step, StepSums* sums) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Step {
    absl::Time first;
    std::map<int64_t, absl::Time> last;  // By incarnation.
  };

  const Clock clock_;
  absl::Mutex mu_;
  std::map<int64_t, Step> open_ ABSL_GUARDED_BY(mu_);
  int64_t taken_ ABSL_GUARDED_BY(mu_) = -1;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_STEP_ARRIVALS_H_
