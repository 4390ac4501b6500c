// The optimizer of one member of an all-reduce.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_MEMBER_OPTIMIZER_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_MEMBER_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"
#include "common/parameters/parameter_table.h"
#include "common/parameters/snapshot.h"
#include "proto/job.pb.h"

namespace tributary {

// The gradient sum of a batch for one chunk: half + other_half, added element
// by element, or `half` alone if `other_half` is null.
struct ChunkGradient {
  const float* half = nullptr;
  // The second part of the sum; null if `half` is the whole sum.
  const float* other_half = nullptr;
};

// Owns the optimizer state of the chunks that the member updates. Updates these
// chunks as UpdateRecipe describes, with results that are bit-identical to the
// results of a server's ChunkPass. Different chunks may be updated
// concurrently.
class MemberOptimizer {
 public:
  // Creates the state of `chunks` for a job of `steps` steps, initialized to
  // zero. `layout` must outlive this object. Returns the errors of
  // Optimizer::Create.
  static absl::StatusOr<std::unique_ptr<MemberOptimizer>> Create(
      const JobSpec& job, int64_t steps, const ArenaLayout* layout,
      const std::vector<int>& chunks);

  // Returns the sum of the squares of the chunk's gradient, added in the same
  // order as in a server's ChunkPass.
  double SumOfSquares(int chunk, const ChunkGradient& gradient) const;

  // The values of a step that are the same for all chunks.
  struct Step {
    int64_t number = 0;        // Starts at 0.
    int64_t sample_count = 0;  // Number of samples (tokens).
    // Norm of the mean gradient. Used by jobs that clip gradients or skip steps
    // with gradients that are not finite.
    double norm = 0;
  };
  // Reads version step.number of the chunk's weights and writes the next
  // version. Leaves gaps between parameters unchanged.
  void Update(int chunk, const ChunkGradient& gradient, const Step& step,
              const float* weights, float* new_weights);

  // Replaces the optimizer state of a chunk with the state in `chunk`. Has no
  // effect if this object does not update that chunk.
  void Restore(const Snapshot::Chunk& chunk);

  // Returns the optimizer state of the chunk, in the order of
  // Optimizer::slot_names.
  const std::vector<Buffer>& slots(int chunk) const { return slots_[chunk]; }

 private:
  MemberOptimizer(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
                  std::unique_ptr<Optimizer> optimizer);

  const UpdateRecipe recipe_;
  const ArenaLayout* const layout_;
  const std::unique_ptr<Optimizer> optimizer_;
  // Both vectors are indexed by chunk.
  std::vector<std::vector<ChunkSegment>> segments_;
  std::vector<std::vector<Buffer>> slots_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_MEMBER_OPTIMIZER_H_
