// Compares the evaluations of a job: which version is the best one, and when
// the job stops early.
#ifndef TRIBUTARY_SERVER_PROGRESS_EVALUATION_HISTORY_H_
#define TRIBUTARY_SERVER_PROGRESS_EVALUATION_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace tributary {

// The result of one evaluation.
struct Evaluation {
  int64_t step = 0;  // Number of steps done before the evaluation.
  double loss = 0;
  double accuracy = 0;
  // Further results, by name.
  std::map<std::string, double> metrics = {};
};

// Returns the result of this metric; NaN if the evaluation has none.
double MetricResult(EvaluationMetric::Name metric,
                    const Evaluation& evaluation);

// Applies JobSpec.stop_when and CheckpointSpec.best to the evaluations of a
// job. Its decisions depend only on these results, and its state is part of
// JobState, so interruptions of the job do not change the decisions. A result
// that is NaN is never better than another one. Not thread-safe.
class EvaluationHistory {
 public:
  explicit EvaluationHistory(const JobSpec& job);

  // Restore reads, and Save writes, the fields of JobState that belong to this
  // class, except stop_reason. Restore ignores results of a metric that the job
  // does not use.
  void Restore(const JobState& state);
  void Save(JobState* state) const;

  struct Verdict {
    // True if the job sets checkpoint.best, and this result is better than all
    // results before it.
    bool best = false;
    // Why the job stops now, in one line; empty if it continues.
    std::string stop;
  };
  // Adds the next evaluation of the job, and returns whether it is the best one
  // so far and whether the job stops.
  Verdict Add(const Evaluation& evaluation);

  // best_result() returns the result of the best evaluation, and best_step()
  // returns the number of steps done before that evaluation. The result is
  // absent before the first evaluation, and if the job does not set
  // checkpoint.best.
  const std::optional<double>& best_result() const { return best_result_; }
  int64_t best_step() const { return best_step_; }

 private:
  std::string CheckStop(const Evaluation& evaluation);

  std::optional<StopSpec> stop_;
  std::optional<EvaluationMetric::Name> best_;
  std::optional<double> stop_best_;
  int64_t stop_evaluations_ = 0;
  std::optional<double> best_result_;
  int64_t best_step_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_EVALUATION_HISTORY_H_
