#include "library/job_metrics.h"

#include <limits>
#include <utility>

#include "common/base/json.h"
#include "nlohmann/json.hpp"

namespace tributary {

double NumberOf(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number()
             ? found->get<double>()
             : std::numeric_limits<double>::quiet_NaN();
}

JobMetrics::JobMetrics(
    std::function<void(const Job::StepMetrics&)> on_step,
    std::function<void(const Job::Evaluation&)> on_evaluation)
    : on_step_(std::move(on_step)), on_evaluation_(std::move(on_evaluation)) {}

void JobMetrics::Add(const std::string& text) {
  const nlohmann::ordered_json line = ParseOrderedJson(text);
  if (!line.is_object()) return;
  if (line.contains("samples_per_second")) AddStep(line);
  if (line.contains("evaluation_loss")) AddEvaluation(line);
}

void JobMetrics::AddStep(const nlohmann::ordered_json& line) {
  Job::StepMetrics metrics;
  metrics.step = line.value("step", int64_t{0});
  if (on_step_ == nullptr || metrics.step <= last_step_) return;
  metrics.loss = NumberOf(line, "loss");
  metrics.learning_rate = NumberOf(line, "learning_rate");
  metrics.seconds = NumberOf(line, "step_seconds");
  metrics.samples = line.value("samples", int64_t{0});
  last_step_ = metrics.step;
  on_step_(metrics);
}

void JobMetrics::AddEvaluation(const nlohmann::ordered_json& line) {
  Job::Evaluation evaluation;
  evaluation.step = line.value("step", int64_t{0});
  if (on_evaluation_ == nullptr || evaluation.step <= evaluated_step_) return;
  evaluation.loss = NumberOf(line, "evaluation_loss");
  evaluation.accuracy = NumberOf(line, "evaluation_accuracy");
  evaluated_step_ = evaluation.step;
  on_evaluation_(evaluation);
}

}  // namespace tributary
