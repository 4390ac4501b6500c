// Estimates how much time one worker spends on computation and on the exchange,
// from the counters in its heartbeats.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_WORKER_SPEED_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_WORKER_SPEED_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// The recent speed of one worker. Not thread-safe.
class WorkerSpeed {
 public:
  // Adds the counters of a heartbeat. Ignores a heartbeat, except for its
  // number of threads, unless its counts of micro-batches and of their seconds
  // are larger than those of the last heartbeat that was not ignored.
  // `waiting_seconds` is how long the worker has waited for other workers so
  // far. All counters are cumulative.
  void Add(const ProcessStatistics& statistics, double waiting_seconds);

  // Begins a new measurement after micro-batches were reassigned, because the
  // speed of a worker also depends on how busy other workers on its host are.
  // `has_micro_batches` is true if this worker has micro-batches now. Until the
  // new measurement is complete, micro_batch_seconds returns the old estimate,
  // if there is one. The old value of exchange_seconds is forgotten at once.
  void Restart(bool has_micro_batches, absl::Time now);

  // Returns true if the measurement since the last Restart is complete: it has
  // samples of five heartbeats, or covers more than three seconds of computing.
  bool fresh() const;

  // Returns the seconds that one thread takes per micro-batch, as the median
  // over the newest heartbeats, so that outliers have no effect. Absent until
  // the worker has computed a micro-batch. A worker without micro-batches
  // cannot be measured; its estimate halves every kHalfLife, so that it
  // eventually gets micro-batches again.
  std::optional<double> micro_batch_seconds(absl::Time now) const;

  // Returns how many seconds of each step's exchange do not overlap with
  // computation, excluding the time spent waiting for other workers. The value
  // is the median over the newest heartbeats since Restart, or 0 if unknown.
  double exchange_seconds() const;

  // Returns the number of micro-batches that the worker computes at the same
  // time.
  int threads() const { return threads_; }

  // Time after which the estimated seconds per micro-batch of a worker without
  // micro-batches halve. It is much longer than a measurement, because giving
  // micro-batches to slow workers too often would cost too much time.
  static constexpr absl::Duration kHalfLife = absl::Minutes(5);

 private:
  // Returns the estimate of micro_batch_seconds before it is halved for the
  // time in which the worker had no micro-batches.
  std::optional<double> MeasuredMicroBatch() const;

  int threads_ = 1;
  // The cumulative counters of the newest heartbeat that reported further
  // micro-batches.
  ProcessStatistics newest_;
  double waiting_seconds_ = 0;
  // The newest samples since Restart. Each sample covers the time between two
  // heartbeats.
  std::deque<double> micro_batch_seconds_;
  std::deque<double> exchange_samples_;
  double measured_seconds_ = 0;  // Seconds of computing since Restart.
  // The estimate of micro_batch_seconds at the last Restart.
  std::optional<double> micro_batch_seconds_before_;
  absl::Time idle_since_ = absl::InfiniteFuture();
};

// Returns `value`, halved once for each complete WorkerSpeed::kHalfLife in
// `age`.
double HalvedByAge(double value, absl::Duration age);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_WORKER_SPEED_H_
