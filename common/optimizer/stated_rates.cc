#include "common/optimizer/stated_rates.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// More steps than are computed at the same time in any consistency mode.
constexpr size_t kMostSteps = 4096;

}  // namespace

absl::Status StatedRates::Add(int64_t step, std::optional<double> given) {
  if (!given.has_value()) {
    if (!required_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", step,
        " without learning_rate, which schedule.decay PLATEAU requires"));
  }
  const double rate = *given;
  if (!(rate >= 0) || !std::isfinite(rate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the learning rate of step ", step, " is ", rate,
                     ", expected a number that is not negative"));
  }
  absl::MutexLock lock(&mu_);
  const auto [stated, added] = rates_.emplace(step, rate);
  if (!added && stated->second != rate) {
    return absl::InvalidArgumentError(
        absl::StrCat("the workers state different learning rates for step ",
                     step, ": ", stated->second, " and ", rate,
                     "; the program must compute the rate from the step, or "
                     "from the epoch"));
  }
  if (rates_.size() > kMostSteps) rates_.erase(rates_.begin());
  return absl::OkStatus();
}

std::optional<double> StatedRates::Of(int64_t step) const {
  absl::MutexLock lock(&mu_);
  const auto stated = rates_.find(step);
  if (stated == rates_.end()) return std::nullopt;
  return stated->second;
}

}  // namespace tributary
