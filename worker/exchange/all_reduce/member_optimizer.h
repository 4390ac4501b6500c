// The arithmetic of one member of an all-reduce.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_MEMBER_OPTIMIZER_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_MEMBER_OPTIMIZER_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/job/rounds.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/snapshot.h"
#include "common/parameters/trust_ratios.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "proto/job.pb.h"
#include "worker/device/copies.h"

namespace tributary {

// Adds gradients, and updates weights as UpdateRecipe describes, for one member
// of an all-reduce. The results are bit-identical to the results of a parameter
// server (see ChunkPass). Gradients and weights are in host memory or in a
// device's memory. Owns the optimizer state of the chunks that the member
// updates, in the same memory.
//
// On a device, operations are asynchronous: the calls queue them, and the
// device runs them in the order of the calls (see Record). After an error of
// the device, all later calls that return a status return this error.
//
// Not thread-safe.
class MemberOptimizer {
 public:
  virtual ~MemberOptimizer() = default;

  // Adds up the contributions to one chunk of `elements` elements, which are
  // all arrays in the memory where this object works, and may be overwritten.
  // If `whole` is true, the result is one array (see Whole). Otherwise, the
  // addition may be left to the calls that the result is passed to.
  virtual TreeSum AddUp(TreeSum parts, int64_t elements, bool whole) = 0;
  // Returns the array of a sum that consists of one array.
  static float* Whole(const TreeSum& sum) {
    return sum.steps().front()->memory().values;
  }

  // The sum of the squares of a chunk's gradient.
  struct SquareSum {
    // Added in the same order as in a server's ChunkPass.
    double value = 0;
    // -1 if `value` is finite. Otherwise the index, within the chunk, of the
    // first gradient element that is not finite, or 0 if all elements are
    // finite and `value`, the sum of their squares, has overflowed.
    int64_t nonfinite = -1;
  };
  // Starts to compute the sum of squares of a chunk's gradient, which must not
  // change until EndSquareSums returns. Unless updates wait for the norm,
  // Update must be called for the chunk before EndSquareSums, and may compute
  // the sum.
  virtual void BeginSquareSum(int chunk, const TreeSum& gradient) = 0;
  // Waits for the sums that BeginSquareSum has started since the previous call,
  // and returns them, indexed by chunk.
  virtual absl::StatusOr<std::map<int, SquareSum>> EndSquareSums() = 0;

  // Null if the optimizer has no trust ratios.
  const TrustRatios* trust_ratios() const {
    return trust_ratios_.has_value() ? &*trust_ratios_ : nullptr;
  }

  // The values of a step that are the same for all chunks.
  struct Step {
    int64_t number = 0;        // Starts at 0.
    int64_t sample_count = 0;  // Number of samples; for texts, of tokens.
    // Norm of the mean gradient. Used by jobs that clip gradients or skip steps
    // with gradients that are not finite.
    double norm = 0;
    // The rate that the program has stated; absent: that of the job's schedule.
    std::optional<double> learning_rate = std::nullopt;
    // Of all parameters; see TrustRatios::Of. Empty if the optimizer has none.
    absl::Span<const float> trust_ratios;
  };
  // The gradient from which the next weights of a chunk are computed, and where
  // its weights are.
  struct WeightsUpdate {
    int chunk = 0;
    const TreeSum* gradient = nullptr;
    const float* weights = nullptr;  // Version Step::number.
    float* new_weights = nullptr;    // The next version.
  };
  // For each update, returns the sums of squares from which trust ratios are
  // computed, for each parameter with weight decay that has elements in the
  // chunk (see TrustRatios). Does not use WeightsUpdate::new_weights. Called
  // only if the optimizer has trust ratios.
  virtual absl::StatusOr<std::vector<std::vector<TensorSquares>>>
  SumTensorSquares(const Step& /*step*/,
                   absl::Span<const WeightsUpdate> /*updates*/) {
    return absl::UnimplementedError("this optimizer has no trust ratios");
  }
  // Number of chunks that a call of Update should receive if updates wait for
  // the norm of the gradient.
  virtual size_t chunks_per_update() const = 0;
  // Computes new weights of chunks, and updates their optimizer state. The gaps
  // between the parameters of a chunk may have any contents.
  virtual absl::Status Update(const Step& step,
                              absl::Span<const WeightsUpdate> updates) = 0;

  // Returns an event that is reached when all operations so far are complete,
  // or null if they are already complete.
  virtual std::shared_ptr<Event> Record() = 0;

  // Copies the weights and the optimizer state of a chunk to the buffers of
  // `to`, in host memory. Blocks.
  virtual absl::Status CopyState(const float* weights,
                                 const Snapshot::Chunk& to) = 0;
  // Replaces the optimizer state of a chunk with the state in `chunk`. Has no
  // effect if this object does not update that chunk.
  virtual void Restore(const Snapshot::Chunk& chunk) = 0;

  // Returns the number of arrays of optimizer state, such as momentum, of a
  // chunk.
  int slots() const { return optimizer_->slots(); }

 protected:
  // `job` has `steps` steps. `layout` must outlive this object.
  MemberOptimizer(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
                  std::unique_ptr<Optimizer> optimizer)
      : recipe_(job, steps, StatisticsRate(job)),
        layout_(*layout),
        optimizer_(std::move(optimizer)) {
    if (optimizer_->has_trust_ratios()) trust_ratios_.emplace(layout_);
  }

  const UpdateRecipe recipe_;
  const ArenaLayout& layout_;
  const std::unique_ptr<Optimizer> optimizer_;

 private:
  std::optional<TrustRatios> trust_ratios_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_MEMBER_OPTIMIZER_H_
