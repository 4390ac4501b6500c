// A histogram of durations with logarithmic buckets, for percentiles and for
// Prometheus.
#ifndef TRIBUTARY_COMMON_BASE_LATENCY_HISTOGRAM_H_
#define TRIBUTARY_COMMON_BASE_LATENCY_HISTOGRAM_H_

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
  // Returns how many of the counted durations are at most `bound`. Interpolates
  // linearly within a bucket.
  int64_t CountUpTo(absl::Duration bound) const;
  // Returns the sum of the durations. Durations that were given to the
  // constructor are taken as the middles of their buckets.
  absl::Duration sum() const { return sum_; }

  const DurationCounts& counts() const { return counts_; }

 private:
  DurationCounts counts_;
  int64_t count_ = 0;
  absl::Duration sum_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_LATENCY_HISTOGRAM_H_
