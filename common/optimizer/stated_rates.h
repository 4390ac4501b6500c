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
  // `required`: each contribution must state a rate, as with schedule.decay
  // PLATEAU.
  explicit StatedRates(bool required = false) : required_(required) {}

  // Records the rate that a contribution has stated; nullopt: none. Returns
  // InvalidArgument if it is negative or not finite, if another rate was stated
  // for this step, or if it is missing.
  absl::Status Add(int64_t step, std::optional<double> given)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the rate that was stated for the step; nullopt if there is none.
  std::optional<double> Of(int64_t step) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const bool required_;
  mutable absl::Mutex mu_;
  std::map<int64_t, double> rates_ ABSL_GUARDED_BY(mu_);  // Indexed by step.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_STATED_RATES_H_
