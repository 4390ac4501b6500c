// Local SGD: each micro-batch takes several optimizer steps on its own copy of
// the weights (a round) between two exchanges.
#ifndef TRIBUTARY_WORKER_TRAINING_LOCAL_SGD_H_
#define TRIBUTARY_WORKER_TRAINING_LOCAL_SGD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"

namespace tributary {

// Implements the inner loop of DiLoCo (Douillard et al., 2023) for one
// micro-batch: takes the H local steps of a round with the job's optimizer,
// from the round's initial weights w_0 to w_H, then computes the outer gradient
// w_0 - w_H. The optimizer's state starts at zero in each round. The result is
// therefore a pure function of w_0 and the gradients, bit-identical on every
// worker.
//
// Not thread-safe. Owns two arenas (buffers for the whole model), plus one for
// each state array of the optimizer, such as momentum, and reuses them across
// rounds. A worker of a pipeline updates only some chunks, and uses memory only
// for these and for what it gets with Replace.
class LocalSgd {
 public:
  // `job` must be resolved. `steps` is the number of steps of the whole job,
  // which the learning rate schedule depends on. `layout` must outlive this
  // object. `pin` pins the arena that holds the weights after the first step
  // of a round (before, weights() is `start`); null pins nothing. Updates the
  // chunks [begin_chunk, end_chunk), which may be none; -1 stands for the
  // number of chunks. With fewer than all, the job must not clip gradients.
  // Returns the errors of Optimizer::Create.
  static absl::StatusOr<std::unique_ptr<LocalSgd>> Create(
      const JobSpec& job, int64_t steps, const ArenaLayout* layout,
      const PinMemory& pin = nullptr, int begin_chunk = 0, int end_chunk = -1);

  // Begins a round. `start` is the arena with the initial weights, which must
  // not change until the round ends. `first_step` is the number of the round's
  // first step within the job.
  void Begin(const float* start, int64_t first_step);

  // Returns the newest weights. Before the first step these are `start`.
  const float* weights() const { return weights_; }
  // Returns the number of the next step within the job.
  int64_t step() const { return first_step_ + taken_; }

  // Takes one step. `gradient_sum` is an arena with the gradient sum of
  // `sample_count` samples (for texts, tokens) and zeros in the gaps between
  // parameters. If the job clips gradients, clips by the norm of the mean
  // gradient of these samples. If `sample_count` is 0, the weights do not
  // change, but the step is counted.
  void Step(const float* gradient_sum, int64_t sample_count);

  // Returns the number of steps of the round that have changed the weights.
  int64_t updates() const { return updates_; }
  // Sets the newest weights from element `begin` on to `values`, which another
  // worker has computed in the same step. Requires updates() above 0.
  void Replace(int64_t begin, absl::Span<const float> values);

  // Returns the number of samples (for texts, tokens) in all steps of the round
  // so far.
  int64_t total_sample_count() const { return total_sample_count_; }
  // Computes out = total_sample_count() * (start - weights()), element by
  // element for all chunks. The sum of the results of all micro-batches,
  // divided by their total sample count, is the mean gradient that the outer
  // optimizer uses. `out` must not overlap `start` or weights().
  void OuterGradient(float* out) const;

 private:
  LocalSgd(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
           std::unique_ptr<Optimizer> optimizer, const PinMemory& pin,
           int begin_chunk, int end_chunk);

  // Sets the elements of the chunks to 0.
  void Clear(const Buffer& arena) const;
  // Returns the norm of the mean gradient.
  double NormOf(const float* gradient_sum, int64_t sample_count) const;

  const UpdateRecipe recipe_;
  const ArenaLayout* const layout_;
  const std::unique_ptr<Optimizer> optimizer_;
  const int begin_chunk_;
  const int end_chunk_;
  // The elements of these chunks.
  const int64_t begin_;
  const int64_t end_;
  std::vector<std::vector<ChunkSegment>> segments_;  // From begin_chunk_ on.
  std::vector<ChunkSegment> arena_segments_;         // Of all of these chunks.
  Buffer arenas_[2];
  std::vector<Buffer> slots_;

  const float* start_ = nullptr;
  const float* weights_ = nullptr;
  int64_t first_step_ = 0;
  // Number of steps taken in this round so far, including steps without
  // samples.
  int64_t taken_ = 0;
  int64_t updates_ = 0;  // Number of steps of this round with samples.
  int64_t total_sample_count_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_LOCAL_SGD_H_
