// A breakdown of the workers' time in a step, and the step's straggler. A
// pure state machine over the counters in heartbeats and the arrival times in
// StepSums.
#ifndef TRIBUTARY_SERVER_PROGRESS_STEP_BREAKDOWN_H_
#define TRIBUTARY_SERVER_PROGRESS_STEP_BREAKDOWN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/rendezvous.pb.h"

namespace tributary {

// The time that one worker spends on a step, as the mean over a window of
// steps. Seconds are wall time.
struct WorkerStep {
  int rank = 0;
  // Mean number of micro-batches per step.
  double micro_batches = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
  double data_seconds = 0;
  // Time spent waiting for weights: the part of the exchange that did not
  // overlap with computation.
  double exchange_seconds = 0;
  // The part of exchange_seconds in which the servers had this worker's
  // gradients but still waited for a different worker's gradients.
  double waiting_seconds = 0;
};

// The worker that the other workers waited for most.
struct Straggler {
  int rank = 0;
  // Mean delay per step. The delay of a step is the median, over the other
  // workers, of the time from the other worker's last contribution to this
  // worker's last contribution. The delay is 0 if a different worker was the
  // last to contribute.
  double seconds = 0;
  // The phase that takes this worker longer than the other workers: "data",
  // "forward" or "backward", or "exchange" if none of these explains the delay.
  // Empty before the worker's heartbeats report a step.
  std::string phase;
};

// For each window of steps, computes a WorkerStep for each worker, and finds
// the straggler. Not thread-safe.
class StepBreakdown {
 public:
  // `servers` is the number of servers that report the arrival times of each
  // step.
  explicit StepBreakdown(int servers);

  // Introduce adds a worker, and RemoveWorker removes it. Other methods
  // identify the worker by its incarnation (the number that it got when it
  // joined). A repeated Introduce has no effect.
  void Introduce(int64_t incarnation, int rank);
  void RemoveWorker(int64_t incarnation);
  // Sets the counters of the worker's newest heartbeat, which are cumulative.
  void AddCounters(int64_t incarnation, const ProcessStatistics& counters);
  // Adds one server's arrival times for one step. Records nothing for workers
  // that were not introduced. If the last contributor is such a worker, still
  // records how long the other workers waited for it. Ignores `sums` with fewer
  // than two contributors or with a time that is not finite.
  void AddArrivals(const StepSums& sums);

  // Returns how long this worker has waited for other workers since Introduce;
  // 0 if it was not introduced.
  double waiting_seconds(int64_t incarnation) const;

  // Ends a window of `steps` steps (at least 1), and computes each worker's
  // means. waiting_seconds covers this window. The other means cover the time
  // from the heartbeat with which they were last computed to the worker's
  // newest heartbeat. They stay unchanged if no heartbeat has reported a
  // further step since then.
  void EndWindow(int64_t steps);
  // Returns the means of the last window, in the order of the workers' ranks.
  // Omits workers whose heartbeats have not reported a step yet.
  const std::vector<WorkerStep>& workers() const { return means_; }
  // Returns the straggler of the last window. Absent if no worker waited for a
  // different worker.
  const std::optional<Straggler>& straggler() const { return straggler_; }

  // The totals for one rank since this object was created. Includes every
  // worker that has had this rank.
  struct Total {
    // Seconds that the workers with this rank waited for other workers,
    // averaged over the servers.
    double waiting_seconds = 0;
    // Sum of the delays that the workers with this rank caused; see
    // Straggler::seconds.
    double waited_for_seconds = 0;
  };
  // Returns the totals of all workers by rank, including workers that have
  // left.
  const std::map<int, Total>& totals() const { return totals_; }

 private:
  struct Worker {
    int rank = 0;
    ProcessStatistics newest;
    ProcessStatistics base;  // Counters at the start of the window.
    WorkerStep mean;
    bool counted = false;
    Total window;
    double waiting_seconds = 0;
  };

  void CloseMeans(int64_t steps);
  void FindStraggler(int64_t steps);
  std::string PhaseOf(int rank, double late_seconds) const;

  const double servers_;
  // The workers that were introduced, indexed by incarnation.
  std::map<int64_t, Worker> workers_;
  std::vector<WorkerStep> means_;
  std::optional<Straggler> straggler_;
  std::map<int, Total> totals_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_STEP_BREAKDOWN_H_
