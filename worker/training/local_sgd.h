// The way that one micro-batch's weights take through a round of local steps.
#ifndef TRIBUTARY_WORKER_TRAINING_LOCAL_SGD_H_
#define TRIBUTARY_WORKER_TRAINING_LOCAL_SGD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"
#include "common/parameters/parameter_table.h"
#include "proto/job.pb.h"

namespace tributary {

// The inner loop of DiLoCo (Douillard et al., 2023): steps with the job's
// optimizer from the round's weights w_0 to w_H, and at the end the outer
// gradient w_0 - w_H. It is a pure function of the round's weights and the
// steps' gradients, as the optimizer's state begins at zero in each round, so
// whoever computes it gets the same bits.
//
// Not thread-safe. Holds two arenas and one for each of the optimizer's slots,
// which are used again from round to round.
class LocalSgd {
 public:
  // `job` is resolved and has `steps` steps; `layout` must outlive this object.
  static absl::StatusOr<std::unique_ptr<LocalSgd>> Create(
      const JobSpec& job, int64_t steps, const ArenaLayout* layout);

  // Begins at `start`, an arena that must stay as it is until the round ends.
  // `first_step` is the job's number of the round's first step.
  void Begin(const float* start, int64_t first_step);

  // The newest weights: `start` before the first step.
  const float* weights() const { return weights_; }
  // Of the step to come, in the job.
  int64_t step() const { return first_step_ + taken_; }

  // Takes one step with the gradient sum of `sample_count` samples (tokens), an
  // arena whose gaps are zero. Clips by the norm of these samples' mean
  // gradient. Without samples nothing moves, but the step counts.
  void Step(const float* gradient_sum, int64_t sample_count);

  // Samples (tokens) in all steps of the round so far.
  int64_t total_sample_count() const { return total_sample_count_; }
  // out = total_weight() * (start - weights()), element by element for the
  // whole arena: summed over trajectories and divided by their samples it is
  // the mean that the outer optimizer wants. `out` must not overlap either.
  void OuterGradient(float* out) const;

 private:
  LocalSgd(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
           std::unique_ptr<Optimizer> optimizer);

  // Of the mean gradient.
  double NormOf(const float* gradient_sum, int64_t sample_count) const;

  const UpdateRecipe recipe_;
  const ArenaLayout* const layout_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::vector<ChunkSegment>> segments_;  // By chunk.
  std::vector<ChunkSegment>
      arena_segments_;  // The same, from the arena's start.
  Buffer arenas_[2];
  std::vector<Buffer> slots_;

  const float* start_ = nullptr;
  const float* weights_ = nullptr;
  int64_t first_step_ = 0;
  int64_t taken_ = 0;    // Steps of this round, those without samples included.
  int64_t updates_ = 0;  // Those with samples.
  int64_t total_sample_count_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_LOCAL_SGD_H_
