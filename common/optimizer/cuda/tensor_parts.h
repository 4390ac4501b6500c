// Computes the sums of squares from which trust ratios follow, on a GPU, with
// the same bits as on the CPU (see common/parameters/trust_ratios.h).
#ifndef TRIBUTARY_COMMON_OPTIMIZER_CUDA_TENSOR_PARTS_H_
#define TRIBUTARY_COMMON_OPTIMIZER_CUDA_TENSOR_PARTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/stream.h"
#include "common/optimizer/cuda/chunk_rows.h"
#include "common/optimizer/cuda/update.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/block_squares.h"
#include "common/parameters/trust_ratios.h"

namespace tributary::cuda {

// The parts of a chunk that have trust ratios: the elements of one parameter
// each. Immutable.
class TensorParts {
 public:
  TensorParts() = default;  // No parts.
  TensorParts(const ArenaLayout& layout, int chunk);

  // Returns the number of BlockSquares that Sum writes.
  int64_t blocks() const { return blocks_; }
  // Queues the kernels that compute the direction of a step and the sums of
  // squares of the weights and of the direction. `direction` has the rule of
  // Optimizer::DirectionAt, only_direction, and an array for the direction,
  // new_weights. Gaps between parameters must be 0 in its weights. `sums` is in
  // GPU memory.
  void Sum(Stream& stream, const ChunkUpdatePass& direction,
           BlockSquares* sums) const;
  // Returns the result from a copy of the sums in host memory.
  std::vector<TensorSquares> Totals(const BlockSquares* sums) const;
  // Multiplies the learning rate factors of the chunk's rows by the trust
  // ratios of the parts.
  void Scale(absl::Span<const float> trust_ratios,
             absl::Span<ChunkRow> rows) const;

 private:
  struct Part {
    int64_t begin = 0;     // First element in the chunk.
    int64_t elements = 0;  // A multiple of kRowElements.
  };

  std::vector<Part> parts_;
  int64_t blocks_ = 0;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_OPTIMIZER_CUDA_TENSOR_PARTS_H_
