// Counts durations in intervals that grow with them, to tell their percentiles
// without keeping them.
#ifndef TRIBUTARY_COMMON_BASE_LATENCY_HISTOGRAM_H_
#define TRIBUTARY_COMMON_BASE_LATENCY_HISTOGRAM_H_

#include <cstdint>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// A value type; not thread-safe. Durations are told apart to an eighth (see
// DurationCounts in proto/rendezvous.proto), up to about a day; longer ones
// count as that, negative ones as none.
class LatencyHistogram {
 public:
  LatencyHistogram() = default;
  explicit LatencyHistogram(const DurationCounts& counts);

  void Add(absl::Duration duration);
  // All that `other` has counted.
  void Add(const LatencyHistogram& other);

  int64_t count() const { return count_; }
  // The duration that a share `quantile`, in [0, 1], of those counted do not
  // exceed, taken as spread evenly over their interval; zero if there are none.
  absl::Duration Quantile(double quantile) const;

  const DurationCounts& counts() const { return counts_; }

 private:
  DurationCounts counts_;
  int64_t count_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_LATENCY_HISTOGRAM_H_
