#include "server/progress/plateau.h"

#include <algorithm>
#include <limits>
#include <string>

#include "common/optimizer/optimizer.h"

namespace tributary {
namespace {

double LeastFactor(const JobSpec& job) {
  const double peak = PeakLearningRate(job.optimizer());
  return peak > 0 ? job.schedule().final_learning_rate() / peak : 0;
}

}  // namespace

Plateau::Plateau(const JobSpec& job)
    : schedule_(job.schedule()),
      active_(schedule_.decay() == ScheduleSpec::PLATEAU),
      least_factor_(LeastFactor(job)) {}

void Plateau::Restore(const JobState& state) {
  if (!active_ || !state.has_plateau_factor()) return;
  factor_ = state.plateau_factor();
  if (state.plateau_metric() !=
      EvaluationMetric::Name_Name(schedule_.metric())) {
    return;
  }
  if (state.has_plateau_best()) best_ = state.plateau_best();
  evaluations_ = state.plateau_evaluations();
  cooldown_ = state.plateau_cooldown();
}

void Plateau::Save(JobState* state) const {
  if (!active_) return;
  state->set_plateau_factor(factor_);
  if (best_.has_value()) state->set_plateau_best(*best_);
  state->set_plateau_evaluations(evaluations_);
  state->set_plateau_cooldown(cooldown_);
  state->set_plateau_metric(EvaluationMetric::Name_Name(schedule_.metric()));
}

// False if the result is NaN.
bool Plateau::IsBetter(double result) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double threshold = schedule_.threshold();
  if (schedule_.metric() == EvaluationMetric::EVALUATION_LOSS) {
    return result < best_.value_or(kInfinity) * (1 - threshold);
  }
  return result > best_.value_or(-kInfinity) * (1 + threshold);
}

void Plateau::Add(const Evaluation& evaluation) {
  if (!active_) return;
  const double result = MetricResult(schedule_.metric(), evaluation);
  if (IsBetter(result)) {
    best_ = result;
    evaluations_ = 0;
  } else {
    ++evaluations_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    evaluations_ = 0;
  }
  if (evaluations_ <= schedule_.patience()) return;
  factor_ = std::max(factor_ * schedule_.decay_factor(), least_factor_);
  cooldown_ = schedule_.cooldown();
  evaluations_ = 0;
}

}  // namespace tributary
