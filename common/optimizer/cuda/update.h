// Runs the optimizers of common/optimizer/optimizer.h on a GPU, with the same
// bits.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_CUDA_UPDATE_H_
#define TRIBUTARY_COMMON_OPTIMIZER_CUDA_UPDATE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/stream.h"
#include "common/optimizer/cuda/chunk_rows.h"
#include "common/optimizer/optimizer_list.h"
#include "common/parameters/block_squares.h"

namespace tributary::cuda {

// Maximum number of chunks in a call of UpdateChunks, which launches one
// kernel. The arguments of a kernel may have up to 4 KiB, which is enough for
// about 20 chunks.
inline constexpr int kGroupChunks = 16;

// The arguments of the optimizer's update of one chunk (see UpdateArguments).
// All arrays are in GPU memory.
struct ChunkUpdatePass {
  int64_t elements = 0;  // Number of elements; a multiple of kRowElements.
  // Describe the chunk's elements (see ChunkRow). The number of rows is
  // `elements` divided by kRowElements.
  const ChunkRow* rows = nullptr;
  // The sum of the gradients of all workers, which is not modified.
  const float* sum = nullptr;
  // `weights` are the chunk's weights before the update. The weights after the
  // update are written to `new_weights`, which may be the same array. Elements
  // in gaps between parameters become zero.
  const float* weights = nullptr;
  float* new_weights = nullptr;
  // The optimizer's state: for each slot of the rule, an array of `elements`
  // floats, which is updated in place. The span itself need not outlive the
  // call of UpdateChunks.
  absl::Span<float* const> slots;
  float gradient_scale = 1;
  float statistics_scale = 0;
  // The optimizer's rule for rows with weight decay (group kDecay), and its
  // rule for rows without weight decay (group kNoDecay).
  OptimizerRule decayed, plain;
  // True if the rules are that of Optimizer::DirectionAt: `slots` are not
  // written, and learning rate factors do not count.
  bool only_direction = false;
  // If not null, receives the sums of the squares of the elements of `sum`, one
  // BlockSquares for each block of kSquareBlock elements.
  BlockSquares* squares = nullptr;
};

// Queues one kernel on `stream` that updates up to kGroupChunks chunks and
// computes the sums of the squares of their gradients, in one pass over memory.
// The rules of all chunks must have the same type.
void UpdateChunks(Stream& stream, absl::Span<const ChunkUpdatePass> chunks);

// Loads the code of UpdateChunks for all optimizer rules on the calling
// thread's current GPU. Otherwise CUDA loads it at the first launch, which may
// wait for everything that runs on the GPU.
cudaError_t LoadUpdateChunks();

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_OPTIMIZER_CUDA_UPDATE_H_
