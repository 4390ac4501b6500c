// The learning rates that the workers' program states.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_STATED_RATES_H_
#define TRIBUTARY_COMMON_OPTIMIZER_STATED_RATES_H_

#include <cstdint>
#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// The learning rates of the steps for which a program has stated one, instead
// of using the job's schedule. Remembers the newest steps only. Thread-safe.
class StatedRates {
 public:
  // Records a rate. Returns InvalidArgument if it is negative or not finite, or
  // if another rate was stated for this step.
  absl::Status Add(int64_t step, double rate) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the rate that was stated for the step; nullopt if there is none.
  std::optional<double> Of(int64_t step) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  std::map<int64_t, double> rates_ ABSL_GUARDED_BY(mu_);  // Indexed by step.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_STATED_RATES_H_
