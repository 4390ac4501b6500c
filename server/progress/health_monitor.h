// Detects conditions for which a user may want to stop a job: a loss that
// diverges or no longer improves, a gradient that is not finite, and a worker
// that is much slower than the others.
#ifndef TRIBUTARY_SERVER_PROGRESS_HEALTH_MONITOR_H_
#define TRIBUTARY_SERVER_PROGRESS_HEALTH_MONITOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tributary {

// Raises alarms, for example if training diverges, from the lines of
// metrics.jsonl. Raises each alarm once, and raises it again only if its
// condition has ended and begun again. A pure state machine. Not thread-safe.
class HealthMonitor {
 public:
  struct Worker {
    int rank = 0;
    double micro_batch_ms = 0;  // Time to compute a micro-batch.
  };
  struct Line {
    int64_t step = 0;
    // The mean training loss since the previous line. Absent in lines about an
    // evaluation.
    std::optional<double> loss;
    std::optional<double> evaluation_loss;
    // True for a line about a step whose update was skipped because its
    // gradient was not finite.
    bool skipped = false;
    // Workers that computed at least one micro-batch.
    std::vector<Worker> workers;
  };
  struct Alarm {
    std::string kind;  // One of the kinds that active() lists.
    std::string message;
  };

  // `steps` is the number of steps of the job.
  explicit HealthMonitor(int64_t steps) : steps_(steps) {}

  // Examines the next line of metrics.jsonl, and returns the alarms that the
  // line raises.
  std::vector<Alarm> Add(const Line& line);

  // Returns 1 for each alarm that is raised now, and 0 for each other alarm,
  // indexed by kind: "divergence", "nonfinite_loss", "plateau", "skipped_step"
  // and "slow_worker".
  std::map<std::string, int> active() const;

 private:
  void AddLoss(int64_t step, double loss, std::vector<Alarm>* alarms);
  void AddEvaluation(int64_t step, double loss, std::vector<Alarm>* alarms);
  // Raises and clears the alarms for losses that are not finite and for skipped
  // steps.
  void AddNonfinite(const Line& line, std::vector<Alarm>* alarms);
  void AddWorkers(const std::vector<Worker>& workers,
                  std::vector<Alarm>* alarms);

  int64_t steps_;

  bool nonfinite_ = false;
  bool skips_ = false;
  // Number of lines with a finite training loss since the last skipped step.
  int lines_since_skip_ = 0;

  // Exponential moving averages: loss_ of the training loss, and noise_ of the
  // distance between the training loss and loss_.
  double loss_ = 0;
  double noise_ = 0;
  int64_t losses_ = 0;
  double first_loss_ = 0;  // loss_ after the first kSettled losses.
  double least_loss_ = 0;
  int64_t least_loss_step_ = 0;
  int64_t lines_since_least_ = 0;
  int high_lines_ = 0;
  bool diverges_ = false;

  int64_t evaluations_since_least_ = 0;
  std::optional<double> least_evaluation_;
  int64_t least_evaluation_step_ = 0;
  bool plateau_ = false;

  struct Slow {
    int lines = 0;  // Consecutive lines in which the worker was slow.
    // Consecutive lines in which this worker could not be compared with others,
    // because it or every other worker was absent. After a number of such
    // lines, the worker no longer counts as slow.
    int absent_lines = 0;
    bool raised = false;
  };
  std::map<int, Slow> slow_;  // By rank.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_HEALTH_MONITOR_H_
