// Where the workers' time goes in a step, and whom they wait for. A pure state
// machine over the counters in heartbeats and the arrivals in StepSums.
#ifndef TRIBUTARY_SERVER_PROGRESS_STEP_BREAKDOWN_H_
#define TRIBUTARY_SERVER_PROGRESS_STEP_BREAKDOWN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/rendezvous.pb.h"

namespace tributary {

// One worker's step; seconds of wall time.
struct WorkerStep {
  int rank = 0;
  double micro_batches = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
  double data_seconds = 0;
  // Waiting for weights: the part of the exchange that computing did not hide.
  double exchange_seconds = 0;
  // Of this, while the servers had its gradients but not yet somebody else's.
  double waiting_seconds = 0;
};

// The worker that the others waited for most.
struct Straggler {
  int rank = 0;
  // In the mean of all steps: from the median worker's last contribution to
  // this worker's, where this came last.
  double seconds = 0;
  // What takes it longer than the others: "data", "forward" or "backward"; if
  // none of these explains it, "exchange". Empty before its first heartbeat.
  std::string phase;
};

// Not thread-safe.
class StepBreakdown {
 public:
  // So many servers report each step.
  explicit StepBreakdown(int servers);

  // From here to Forget the worker counts. Repeats are ignored.
  void Introduce(int64_t incarnation, int rank);
  void Forget(int64_t incarnation);
  void AddCounters(int64_t incarnation, const ProcessStatistics& counters);
  // What one server says of one step. Those that nobody introduced are ignored.
  void AddArrivals(const StepSums& sums);

  // How long this worker has waited for others since it was introduced.
  double waiting_seconds(int64_t incarnation) const;

  // Ends a window of `steps` steps (at least 1). The means are taken over what
  // was counted between the newest heartbeats before this window's ends; where
  // there was none meanwhile they stay as they are.
  void EndWindow(int64_t steps);
  // Of the last window, by rank. Workers that have not been heard of are left
  // out.
  const std::vector<WorkerStep>& workers() const { return means_; }
  // Absent if nobody waited.
  const std::optional<Straggler>& straggler() const { return straggler_; }

  // Since the start.
  struct Total {
    double waiting_seconds = 0;     // For others, all servers having the same.
    double waited_for_seconds = 0;  // By the median other.
  };
  // By rank, those who have left included.
  const std::map<int, Total>& totals() const { return totals_; }

 private:
  struct Worker {
    int rank = 0;
    ProcessStatistics newest;
    ProcessStatistics base;  // At the start of the window.
    WorkerStep mean;
    bool counted = false;
    Total window;
    double waiting_seconds = 0;
  };

  void CloseMeans(int64_t steps);
  void FindStraggler(int64_t steps);
  std::string PhaseOf(int rank, double late_seconds) const;

  const double servers_;
  std::map<int64_t, Worker> workers_;  // By incarnation.
  std::vector<WorkerStep> means_;
  std::optional<Straggler> straggler_;
  std::map<int, Total> totals_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_STEP_BREAKDOWN_H_
