#include "deploy/tools/chart/chart_axis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace tributary {
namespace {

// Labels of larger values have an exponent.
constexpr double kLongest = 1e6;

// Values closer than this fraction of their size are drawn as one.
constexpr double kCloseness = 1e-9;

}  // namespace

ChartAxis::ChartAxis(double low, double high, int ticks) {
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
    low = 0;
    high = 1;
  }
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low <= kCloseness * size || high == low) {
    const double room = size > 0 ? size / 10 : 1;
    // Extends an empty range, but keeps 0 as its lower end.
    low = low == 0 ? 0 : low - room;
    high += room;
  }
  const double raw = (high - low) / std::max(1, ticks);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  step_ = power;
  for (const double factor : {1, 2, 5, 10}) {
    step_ = factor * power;
    if (step_ >= raw * (1 - kCloseness)) break;
  }
  low_ = std::floor(low / step_ + kCloseness) * step_;
  high_ = std::ceil(high / step_ - kCloseness) * step_;
}

std::vector<double> ChartAxis::Ticks() const {
  std::vector<double> ticks;
  const auto count = static_cast<int>(std::lround((high_ - low_) / step_));
  for (int i = 0; i <= count; ++i) ticks.push_back(low_ + i * step_);
  return ticks;
}

std::string ChartAxis::Label(double tick) const {
  // Rounding errors near 0 become 0.
  if (std::abs(tick) < step_ / 1000) tick = 0;
  const double largest = std::max(std::abs(low_), std::abs(high_));
  if (largest >= kLongest || step_ < 1 / kLongest) {
    return absl::StrFormat("%.4g", tick);
  }
  const int decimals =
      std::max(0, -static_cast<int>(std::floor(std::log10(step_) + 1e-6)));
  return absl::StrFormat("%.*f", decimals, tick);
}

}  // namespace tributary
