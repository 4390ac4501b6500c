// What one worker's leaves have lately taken, from the counters in its
// heartbeats.
#ifndef TRIBUTARY_SERVER_LEAF_SPEED_H_
#define TRIBUTARY_SERVER_LEAF_SPEED_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Not thread-safe.
class LeafSpeed {
 public:
  // Counters of a heartbeat; they grow from one to the next.
  void Add(const ProcessStatistics& statistics);

  // The leaves are dealt anew, and some or none of them to this worker: what it
  // takes is to be measured again, because workers on one host slow one another
  // down. The old measurement holds until then.
  void Restart(bool has_leaves, absl::Time now);

  // Measured well enough since the last Restart.
  bool fresh() const;

  // For one leaf: the median of the newest heartbeats', so that a hiccup does
  // not count; absent before the first leaf. A worker that has no leaves cannot
  // show that it has become faster. Therefore it is taken to be twice as fast
  // each time that kForget has passed, until it gets leaves to be measured by.
  std::optional<double> seconds(absl::Time now) const;

  // Leaves that the worker computes at the same time.
  int threads() const { return threads_; }

  // Much longer than a measurement takes, or it would cost too much to try.
  static constexpr absl::Duration kForget = absl::Minutes(5);

 private:
  // Without what is taken off for being idle.
  std::optional<double> Measured() const;

  int threads_ = 1;
  int64_t leaves_ = 0;       // So far.
  double leaf_seconds_ = 0;  // So far.
  // Of one leaf, between two heartbeats, since Restart; the newest.
  std::deque<double> samples_;
  double measured_seconds_ = 0;   // Since Restart.
  std::optional<double> before_;  // What was measured before Restart.
  absl::Time idle_since_ = absl::InfiniteFuture();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_LEAF_SPEED_H_
