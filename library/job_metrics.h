// Passes the lines of metrics.jsonl to the callbacks of a Job.
#ifndef TRIBUTARY_LIBRARY_JOB_METRICS_H_
#define TRIBUTARY_LIBRARY_JOB_METRICS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "nlohmann/json_fwd.hpp"
#include "tributary/job.h"

namespace tributary {

// Returns the number that is the value of `name` in `object`, or NaN if there
// is no such number. JSON cannot represent a value that is not finite, so the
// member is then not a number.
double NumberOf(const nlohmann::ordered_json& object, const char* name);

// Calls the callbacks of a Job with the metrics of its steps and evaluations.
// Calls each callback at most once for a step, even if the step is repeated
// because a server was lost. Not thread-safe.
class JobMetrics {
 public:
  // Either callback may be null.
  JobMetrics(std::function<void(const Job::StepMetrics&)> on_step,
             std::function<void(const Job::Evaluation&)> on_evaluation);

  // Parses a line of metrics.jsonl and calls the callbacks for its contents.
  // Ignores lines that describe neither a step nor an evaluation.
  void Add(const std::string& line);

 private:
  void AddStep(const nlohmann::ordered_json& line);
  void AddEvaluation(const nlohmann::ordered_json& line);

  const std::function<void(const Job::StepMetrics&)> on_step_;
  const std::function<void(const Job::Evaluation&)> on_evaluation_;
  int64_t last_step_ = 0;
  int64_t evaluated_step_ = -1;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_METRICS_H_
