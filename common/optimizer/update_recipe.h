// From the sum of a batch's gradients to the numbers of its update: divide,
// clip, and take the learning rate of the step.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_UPDATE_RECIPE_H_
#define TRIBUTARY_COMMON_OPTIMIZER_UPDATE_RECIPE_H_

#include <cstdint>

#include "common/optimizer/optimizer.h"
#include "proto/job.pb.h"

namespace tributary {

// What turns the sum of a batch's gradients into the gradient: 1 / weight, and
// times clip_norm / norm where the norm is above clip_norm (PyTorch's rule,
// which adds 1e-6 to the norm). `weight`: samples or tokens in the batch, at
// least 1. `norm`: of the mean gradient; unused if `clip_norm` is 0.
float GradientScale(int64_t weight, double clip_norm, double norm);

// The same wherever a job's steps are taken: by servers, by the workers of an
// all-reduce, and in trajectories of local steps. Immutable.
class UpdateRecipe {
 public:
  // `job` is valid and has `steps` steps. `statistics_rate`: how far a step
  // moves parameters of group STATISTICS.
  UpdateRecipe(const JobSpec& job, int64_t steps, double statistics_rate)
      : job_(job), steps_(steps), statistics_rate_(statistics_rate) {}

  // Of step `number`, counted from 0, of a batch of `weight` samples (tokens);
  // 0 counts as 1. `norm`: of its mean gradient; unused where jobs neither clip
  // nor skip.
  UpdateStep At(int64_t number, int64_t weight, double norm) const;

  // Whether the job leaves weights and state as they are in a step of this
  // norm.
  bool Skips(double norm) const;

  bool clips() const { return job_.clip_norm() > 0; }

 private:
  const JobSpec job_;
  const int64_t steps_;
  const double statistics_rate_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_UPDATE_RECIPE_H_
