// Random values whose frequencies follow Zipf's law.
#ifndef TRIBUTARY_WORKER_DATA_CLICKS_ZIPF_DISTRIBUTION_H_
#define TRIBUTARY_WORKER_DATA_CLICKS_ZIPF_DISTRIBUTION_H_

#include <cstdint>
#include <vector>

namespace tributary {

// The distribution of numbers r from 1 to `values` whose probabilities are
// proportional to r^-exponent. For r above 1024, uses the integral of
// t^-exponent from r - 1/2 to r + 1/2, whose relative error is below 1e-6.
// Gives the same bits on every machine. Immutable and therefore thread-safe.
class ZipfDistribution {
 public:
  // `values` must be at least 1, and `exponent` in [0, 4].
  ZipfDistribution(int64_t values, double exponent);

  int64_t values() const { return values_; }
  // Returns the smallest r whose cumulative probability is above `probability`,
  // which must be in [0, 1). Takes constant time.
  int64_t Quantile(double probability) const;
  // Returns the probability of numbers up to r, which must be in [0, values].
  double Cumulative(int64_t r) const;

 private:
  // Returns the integral of t^-exponent from the end of the exact part to `x`.
  double Integral(double x) const;

  int64_t values_;
  double one_minus_exponent_;
  // sums_[r] is the sum of k^-exponent for k from 1 to r, as far as it is
  // exact.
  std::vector<double> sums_;
  // starts_[i] is the largest r with sums_[r] <= i / size * sums_.back().
  std::vector<int32_t> starts_;
  double begin_ = 0;        // The end of the exact part.
  double begin_power_ = 0;  // begin_^(1 - exponent)
  double total_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CLICKS_ZIPF_DISTRIBUTION_H_
