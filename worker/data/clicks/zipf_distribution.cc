#include "worker/data/clicks/zipf_distribution.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/numerics/exponential.h"

namespace tributary {
namespace {

// Enough that the integral is accurate, and small enough for the first-level
// cache with the tables of other columns.
constexpr int64_t kExactValues = 1024;
// Below this distance from 1, x^(1 - exponent) has lost too many digits, and
// the distribution with exponent 1 is as good.
constexpr double kNearOne = 1e-6;

}  // namespace

ZipfDistribution::ZipfDistribution(int64_t values, double exponent)
    : values_(values), one_minus_exponent_(1 - exponent) {
  if (std::abs(one_minus_exponent_) < kNearOne) one_minus_exponent_ = 0;
  sums_.push_back(0);
  for (int64_t r = 1; r <= std::min(values, kExactValues); ++r) {
    const double logarithm = NaturalLogarithm(static_cast<double>(r));
    sums_.push_back(sums_.back() + Exponential(-exponent * logarithm));
  }
  const auto exact = static_cast<double>(sums_.size() - 1);
  starts_.resize(sums_.size());
  size_t r = 0;
  for (size_t i = 0; i < starts_.size(); ++i) {
    const double sum = static_cast<double>(i) /
                       static_cast<double>(starts_.size()) * sums_.back();
    while (sums_[r + 1] <= sum) ++r;
    starts_[i] = static_cast<int32_t>(r);
  }
  begin_ = exact + 0.5;
  begin_power_ = Exponential(one_minus_exponent_ * NaturalLogarithm(begin_));
  total_ = sums_.back() + Integral(static_cast<double>(values) + 0.5);
}

double ZipfDistribution::Integral(double x) const {
  const double logarithm = NaturalLogarithm(x / begin_);
  if (one_minus_exponent_ == 0) return logarithm;
  return begin_power_ * (Exponential(one_minus_exponent_ * logarithm) - 1) /
         one_minus_exponent_;
}

int64_t ZipfDistribution::Quantile(double probability) const {
  const double sum = probability * total_;
  if (sum < sums_.back()) {
    const auto size = static_cast<double>(starts_.size());
    const auto start = std::min(static_cast<size_t>(sum / sums_.back() * size),
                                starts_.size() - 1);
    auto r = static_cast<size_t>(starts_[start]);
    // Rounding may have chosen the start after the right one.
    while (sums_[r] > sum) --r;
    while (sums_[r + 1] <= sum) ++r;
    return static_cast<int64_t>(r) + 1;
  }
  const double rest = sum - sums_.back();
  const double logarithm =
      one_minus_exponent_ == 0
          ? rest
          : NaturalLogarithm(std::max(
                1 + one_minus_exponent_ * rest / begin_power_, 1e-300)) /
                one_minus_exponent_;
  const double x = begin_ * Exponential(std::min(logarithm, 700.0));
  const double least = begin_ + 0.5;
  const double most = static_cast<double>(values_);
  return static_cast<int64_t>(
      std::min(std::max(std::floor(x + 0.5), least), most));
}

double ZipfDistribution::Cumulative(int64_t r) const {
  const auto at = static_cast<size_t>(r);
  if (at < sums_.size()) return sums_[at] / total_;
  return (sums_.back() + Integral(static_cast<double>(r) + 0.5)) / total_;
}

}  // namespace tributary
