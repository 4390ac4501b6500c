// The pass over a chunk's memory that makes its next version.
#ifndef TRIBUTARY_SERVER_BLOCK_PASS_H_
#define TRIBUTARY_SERVER_BLOCK_PASS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/optimizer.h"
#include "common/parameter_table.h"
#include "server/chunk_aggregator.h"
#include "server/chunk_weights.h"
#include "common/snapshot.h"

namespace tributary {

// One chunk's. Blocks of TreeSum::kBlock are summed, updated and written while
// the caches have them, so that memory is read and written once. Immutable.
class BlockPass {
 public:
  BlockPass(const ArenaLayout& layout, int chunk);

  // GradientSquares of the sum, in the order of Run.
  double SumOfSquares(const TreeSum& sum) const;

  struct Arguments {
    const TreeSum* sum = nullptr;
    const Optimizer* optimizer = nullptr;
    double gradient_scale = 1;
    double statistics_scale = 0;
    double learning_rate = 0;
    int64_t step = 0;
    // The optimizer's state.
    absl::Span<const Buffer> slots;
    const ChunkWeights* weights = nullptr;
    const ChunkWeights::Next* next = nullptr;
    // New weights are written past the caches.
    bool streams = false;
    // Leaves weights and state as they are.
    bool skip = false;
    // If not null, gets the state after the pass, and the weights if
    // next->in_place.
    const Snapshot::Chunk* copy = nullptr;
  };
  // Returns what SumOfSquares does.
  double Run(const Arguments& arguments) const;

 private:
  const int64_t elements_;
  const std::vector<ChunkSegment> segments_;
  // The segments' parts in each block, counted from the block's start, and
  // where in this list a block's begin.
  std::vector<ChunkSegment> block_segments_;
  std::vector<size_t> first_of_block_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_BLOCK_PASS_H_
