// What computing and exchanging have lately taken one worker, from the counters
// in its heartbeats.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_WORKER_SPEED_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_WORKER_SPEED_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Not thread-safe.
class WorkerSpeed {
 public:
  // Counters of a heartbeat, and how long the worker has waited for others so
  // far. All grow from one call to the next.
  void Add(const ProcessStatistics& statistics, double waiting_seconds);

  // The leaves are dealt anew, and some or none of them to this worker: what it
  // takes is to be measured again, because workers on one host slow one another
  // down. The old measurement holds until then.
  void Restart(bool has_micro_batches, absl::Time now);

  // Measured well enough since the last Restart.
  bool fresh() const;

  // For one leaf: the median of the newest heartbeats', so that a hiccup does
  // not count; absent before the first leaf. A worker that has no leaves cannot
  // show that it has become faster. Therefore it is taken to be twice as fast
  // each time that kForget has passed, until it gets leaves to be measured by.
  std::optional<double> micro_batch_seconds(absl::Time now) const;

  // What a step's exchange takes longer than computing, without waiting for
  // other workers; the median since Restart. 0 if it is not known.
  double exchange_seconds() const;

  // Leaves that the worker computes at the same time.
  int threads() const { return threads_; }

  // Much longer than a measurement takes, or it would cost too much to try.
  static constexpr absl::Duration kForget = absl::Minutes(5);

 private:
  // Without what is taken off for being idle.
  std::optional<double> MeasuredMicroBatch() const;

  int threads_ = 1;
  // So far.
  ProcessStatistics newest_;
  double waiting_seconds_ = 0;
  // Between two heartbeats, since Restart; the newest.
  std::deque<double> micro_batch_seconds_;
  std::deque<double> exchange_samples_;
  double measured_seconds_ = 0;  // Computing, since Restart.
  std::optional<double>
      micro_batch_seconds_before_;  // What was measured before Restart.
  absl::Time idle_since_ = absl::InfiniteFuture();
};

// `value`, halved for each kForget in `age`.
double Faded(double value, absl::Duration age);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_WORKER_SPEED_H_
