// A histogram of durations with logarithmic buckets, for percentiles and for
// Prometheus.
#ifndef TRIBUTARY_COMMON_BASE_LATENCY_HISTOGRAM_H_
#define TRIBUTARY_COMMON_BASE_LATENCY_HISTOGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// A histogram of durations. A value type; not thread-safe. The width of a
// bucket is one nanosecond or, for longer durations, at most one eighth of the
// shortest duration in the bucket (see DurationCounts in
// proto/rendezvous.proto). The last bucket ends at 2^48 ns, about 78 hours.
// Longer durations are counted in the last bucket, and negative ones as zero.
class LatencyHistogram {
 public:
  LatencyHistogram() = default;
  explicit LatencyHistogram(const DurationCounts& counts);

  // Counts the duration `times` times.
  void Add(absl::Duration duration, int64_t times = 1);
  // Adds all counts of the histogram `other` to this one.
  void Add(const LatencyHistogram& other);

  int64_t count() const { return count_; }
  // Returns the duration that the fraction `quantile` (from 0 to 1) of the
  // counted durations does not exceed. Interpolates linearly within a bucket.
  // Returns zero if the histogram is empty.
  absl::Duration Quantile(double quantile) const;
  // Bounds of the buckets that Prometheus sees, in seconds. They cover the step
  // times of small networks on one machine and of large networks on slow links.
  static constexpr std::array<double, 16> kBounds = {
      0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
      0.5,   1,     2,     5,    10,   20,   50,  100};
  // Returns how many of the counted durations are at most kBounds[i]. Durations
  // that were given to the constructor are taken as the middles of their
  // buckets.
  int64_t CountUpTo(size_t i) const { return up_to_[i]; }
  // Returns the sum of the durations. Durations that were given to the
  // constructor are taken as the middles of their buckets.
  absl::Duration sum() const { return sum_; }

  const DurationCounts& counts() const { return counts_; }

 private:
  // Adds `times` equal durations to all fields but counts_.
  void Count(absl::Duration duration, int64_t times);

  DurationCounts counts_;
  std::array<int64_t, kBounds.size()> up_to_ = {};  // See CountUpTo.
  int64_t count_ = 0;
  absl::Duration sum_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_LATENCY_HISTOGRAM_H_
