#include "common/optimizer/update_recipe.h"

#include <algorithm>
#include <cmath>

#include "common/optimizer/schedule.h"

namespace tributary {

float GradientScale(int64_t sample_count, double clip_norm, double norm) {
  const double mean = 1 / static_cast<double>(sample_count);
  // False for a NaN norm: the gradient and thus the weights then become NaN, so
  // the error is visible.
  if (clip_norm <= 0 || norm + 1e-6 <= clip_norm) {
    return static_cast<float>(mean);
  }
  return static_cast<float>(mean * (clip_norm / (norm + 1e-6)));
}

UpdateStep UpdateRecipe::At(int64_t number, int64_t sample_count, double norm,
                            const std::optional<double>& learning_rate) const {
  const int64_t divisor = std::max<int64_t>(sample_count, 1);
  UpdateStep step;
  step.gradient_scale = GradientScale(divisor, job_.clip_norm(), norm);
  step.statistics_scale =
      static_cast<float>(statistics_rate_ / static_cast<double>(divisor));
  step.learning_rate =
      learning_rate.value_or(LearningRateAt(job_, steps_, number));
  step.number = number;
  return step;
}

bool UpdateRecipe::Skips(double norm) const {
  return job_.on_nonfinite() == JobSpec::SKIP && !std::isfinite(norm);
}

}  // namespace tributary
