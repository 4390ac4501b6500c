// A histogram of durations with fixed buckets, for Prometheus.
#ifndef TRIBUTARY_COMMON_METRICS_HISTOGRAM_H_
#define TRIBUTARY_COMMON_METRICS_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tributary {

// Counts durations, in seconds, by bucket. A value type; not thread-safe.
class Histogram {
 public:
  // Upper bounds of the buckets, in seconds. The last bucket has no upper
  // bound. The bounds cover the step times of small networks on one machine and
  // of large networks on slow links.
  static constexpr std::array<double, 16> kBounds = {
      0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
      0.5,   1,     2,     5,    10,   20,   50,  100};

  // Counts the duration `seconds` `times` times.
  void Add(double seconds, int64_t times = 1) {
    const size_t bucket =
        std::lower_bound(kBounds.begin(), kBounds.end(), seconds) -
        kBounds.begin();
    counts_[bucket] += times;
    sum_ += seconds * static_cast<double>(times);
  }

  // Returns the number of values in each bucket. Unlike in Prometheus' format,
  // the counts are not cumulative.
  const std::array<int64_t, kBounds.size() + 1>& counts() const {
    return counts_;
  }
  double sum() const { return sum_; }

 private:
  std::array<int64_t, kBounds.size() + 1> counts_ = {};
  double sum_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_METRICS_HISTOGRAM_H_
