// Computes the parameters of an update from the sum of a batch's gradients:
// divides by the sample count, clips, and looks up the learning rate.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_UPDATE_RECIPE_H_
#define TRIBUTARY_COMMON_OPTIMIZER_UPDATE_RECIPE_H_

#include <cstdint>
#include <optional>

#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns the factor that turns the sum of a batch's gradients into the
// gradient. If `clip_norm` is above 0, and norm + 1e-6 is above `clip_norm` or
// NaN, this is clip_norm / (norm + 1e-6) / sample_count (PyTorch's rule).
// Otherwise it is 1 / sample_count. `sample_count` is the number of samples or
// tokens in the batch, at least 1. `norm` is the norm of the mean gradient; it
// is not used if `clip_norm` is 0.
float GradientScale(int64_t sample_count, double clip_norm, double norm);

// Computes each step's UpdateStep. Servers, the workers of an all-reduce and
// local SGD all use this class, so that they compute the same bits. Immutable.
class UpdateRecipe {
 public:
  // `job` must be valid and have `steps` steps. `statistics_rate` is the rate
  // at which running statistics change; see StatisticsRate in
  // common/job/rounds.h.
  UpdateRecipe(const JobSpec& job, int64_t steps, double statistics_rate)
      : job_(job), steps_(steps), statistics_rate_(statistics_rate) {}

  // Returns the parameters of the update of step `number`, counted from 0, for
  // a batch of `sample_count` samples or tokens; a `sample_count` of 0 counts
  // as 1. `norm` is the norm of the mean gradient, which is used only if the
  // job clips gradients. `learning_rate` takes the place of the rate of the
  // job's schedule, if it is present.
  UpdateStep At(
      int64_t number, int64_t sample_count, double norm,
      const std::optional<double>& learning_rate = std::nullopt) const;

  // Returns true if the job skips a step whose gradient has this norm:
  // on_nonfinite is SKIP, and the norm is infinite or NaN. A skipped step
  // leaves weights and state unchanged.
  bool Skips(double norm) const;

  bool clips() const { return job_.clip_norm() > 0; }

 private:
  const JobSpec job_;
  const int64_t steps_;
  const double statistics_rate_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_UPDATE_RECIPE_H_
