#include "server/progress/step_arrivals.h"

#include <algorithm>
#include <utility>

namespace tributary {
namespace {

// Largest number of steps with recorded arrivals: more than any consistency
// mode has open at once. Bounds the memory that a peer can make this object
// allocate.
constexpr int64_t kMaxOpenSteps = 1024;

}  // namespace

StepArrivals::StepArrivals(Clock clock) : clock_(std::move(clock)) {}

void StepArrivals::Add(int64_t step, int64_t incarnation) {
  const absl::Time now = clock_();
  absl::MutexLock lock(&mu_);
  if (step <= taken_ || step > taken_ + kMaxOpenSteps) return;
  Step& open = open_[step];
  if (open.last.empty()) open.first = now;
  open.last[incarnation] = now;
}

void StepArrivals::Take(int64_t step, StepSums* sums) {
  absl::MutexLock lock(&mu_);
  const auto found = open_.find(step);
  if (found != open_.end()) {
    for (const auto& [incarnation, last] : found->second.last) {
      sums->add_contributor(incarnation);
      sums->add_contributor_seconds(static_cast<float>(
          absl::ToDoubleSeconds(last - found->second.first)));
    }
  }
  open_.erase(open_.begin(), open_.upper_bound(step));
  taken_ = std::max(taken_, step);
}

}  // namespace tributary
