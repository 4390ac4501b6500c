// The optimizer where workers run it themselves: what the servers' pass over a
// chunk is in the parameter server.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_CHUNK_UPDATER_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_CHUNK_UPDATER_H_

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

// The sum of a batch's gradients for one chunk.
struct ChunkGradient {
  const float* half = nullptr;
  // What is to be added to it; null: nothing.
  const float* other_half = nullptr;
};

// Holds the optimizer's state of some chunks. Different chunks may be updated
// at the same time.
class ChunkUpdater {
 public:
  // For a job of so many steps. All state is zero, as before the first step.
  // `layout` must outlive this object.
  static absl::StatusOr<std::unique_ptr<ChunkUpdater>> Create(
      const JobSpec& job, int64_t steps, const ArenaLayout* layout,
      const std::vector<int>& chunks);

  // Of the whole chunk, in the order of the servers' pass.
  double SumOfSquares(int chunk, const ChunkGradient& gradient) const;

  // Of the whole batch.
  struct Step {
    int64_t number = 0;        // From 0.
    int64_t sample_count = 0;  // Samples (tokens).
    double norm = 0;           // Of the mean gradient; where jobs clip or skip.
  };
  // Reads version step.number of the chunk's weights and writes the next one.
  // Gaps between parameters are left alone.
  void Update(int chunk, const ChunkGradient& gradient, const Step& step,
              const float* weights, float* new_weights);

  // Takes the chunk's state from there; ignores a chunk that is not one of its.
  void Restore(const Snapshot::Chunk& chunk);

  // The arrays of state of one of the chunks, in the order of
  // Optimizer::slot_names.
  const std::vector<Buffer>& slots(int chunk) const { return slots_[chunk]; }

 private:
  ChunkUpdater(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
               std::unique_ptr<Optimizer> optimizer);

  const UpdateRecipe recipe_;
  const ArenaLayout* const layout_;
  const std::unique_ptr<Optimizer> optimizer_;
  // By chunk.
  std::vector<std::vector<ChunkSegment>> segments_;
  std::vector<std::vector<Buffer>> slots_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_CHUNK_UPDATER_H_
