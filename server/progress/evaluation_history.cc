#include "server/progress/evaluation_history.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tributary {
namespace {

// Returns by how much `a` is better than `b`; NaN if one of them is NaN.
double Gain(EvaluationMetric::Name metric, double a, double b) {
  return metric == EvaluationMetric::EVALUATION_LOSS ? b - a : a - b;
}

const char* NameOf(EvaluationMetric::Name metric) {
  if (metric == EvaluationMetric::EVALUATION_AUC) return "evaluation AUC";
  return metric == EvaluationMetric::EVALUATION_ACCURACY ? "evaluation accuracy"
                                                         : "evaluation loss";
}

// Returns true if `name`, a field of JobState, names this metric.
bool IsMetric(const std::string& name, EvaluationMetric::Name metric) {
  return name.empty() || name == EvaluationMetric::Name_Name(metric);
}

std::optional<StopSpec> StopOf(const JobSpec& job) {
  if (!job.has_stop_when()) return std::nullopt;
  return job.stop_when();
}

std::optional<EvaluationMetric::Name> BestOf(const JobSpec& job) {
  if (!job.checkpoint().has_best()) return std::nullopt;
  return job.checkpoint().best();
}

}  // namespace

double MetricResult(EvaluationMetric::Name metric,
                    const Evaluation& evaluation) {
  if (metric == EvaluationMetric::EVALUATION_AUC) {
    const auto auc = evaluation.metrics.find("auc");
    return auc == evaluation.metrics.end() ? std::nan("") : auc->second;
  }
  return metric == EvaluationMetric::EVALUATION_ACCURACY ? evaluation.accuracy
                                                         : evaluation.loss;
}

EvaluationHistory::EvaluationHistory(const JobSpec& job)
    : stop_(StopOf(job)), best_(BestOf(job)) {}

void EvaluationHistory::Restore(const JobState& state) {
  if (stop_.has_value() && IsMetric(state.stop_metric(), stop_->metric())) {
    if (state.has_stop_best()) stop_best_ = state.stop_best();
    stop_evaluations_ = state.stop_evaluations();
  }
  if (best_.has_value() && IsMetric(state.best_metric(), *best_) &&
      state.has_best_result()) {
    best_result_ = state.best_result();
    best_step_ = state.best_step();
  }
}

void EvaluationHistory::Save(JobState* state) const {
  if (stop_.has_value()) {
    state->set_stop_metric(EvaluationMetric::Name_Name(stop_->metric()));
  }
  if (stop_best_.has_value()) state->set_stop_best(*stop_best_);
  state->set_stop_evaluations(stop_evaluations_);
  if (best_.has_value()) {
    state->set_best_metric(EvaluationMetric::Name_Name(*best_));
  }
  if (best_result_.has_value()) state->set_best_result(*best_result_);
  state->set_best_step(best_step_);
}

EvaluationHistory::Verdict EvaluationHistory::Add(
    const Evaluation& evaluation) {
  Verdict verdict;
  if (best_.has_value()) {
    const double result = MetricResult(*best_, evaluation);
    verdict.best =
        !std::isnan(result) &&
        (!best_result_.has_value() || Gain(*best_, result, *best_result_) > 0);
    if (verdict.best) {
      best_result_ = result;
      best_step_ = evaluation.step;
    }
  }
  if (stop_.has_value()) verdict.stop = CheckStop(evaluation);
  return verdict;
}

std::string EvaluationHistory::CheckStop(const Evaluation& evaluation) {
  const EvaluationMetric::Name metric = stop_->metric();
  const double result = MetricResult(metric, evaluation);
  if (!std::isnan(result) &&
      (!stop_best_.has_value() ||
       Gain(metric, result, *stop_best_) > stop_->min_delta())) {
    stop_best_ = result;
    stop_evaluations_ = 0;
  } else {
    ++stop_evaluations_;
  }
  if (stop_->has_target() && Gain(metric, result, stop_->target()) >= 0) {
    return absl::StrFormat("the %s %.6g has reached stop_when.target, %.6g",
                           NameOf(metric), result, stop_->target());
  }
  if (stop_->patience() == 0 || stop_evaluations_ < stop_->patience()) {
    return "";
  }
  return absl::StrCat("the ", NameOf(metric), " has not improved in ",
                      stop_evaluations_, " evaluations (stop_when.patience)",
                      stop_best_.has_value()
                          ? absl::StrFormat("; its best is %.6g", *stop_best_)
                          : std::string());
}

}  // namespace tributary
