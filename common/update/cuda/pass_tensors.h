// What a pass on a GPU needs for trust ratios (see TrustRatios).
#ifndef TRIBUTARY_COMMON_UPDATE_CUDA_PASS_TENSORS_H_
#define TRIBUTARY_COMMON_UPDATE_CUDA_PASS_TENSORS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/optimizer/cuda/chunk_rows.h"
#include "common/optimizer/cuda/tensor_parts.h"
#include "common/optimizer/cuda/update.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/block_squares.h"
#include "common/parameters/trust_ratios.h"
#include "common/update/cuda/pass_gpu.h"
#include "common/update/cuda/pass_stream.h"

namespace tributary::cuda {

// Returns the size of a chunk's rows in GPU memory, in elements of 4 bytes.
int64_t RowElements(const ArenaLayout& layout, int chunk);

// Computes the sums of squares of one chunk's parameters, and the chunk's rows
// with trust ratios. Not thread-safe.
class PassTensors {
 public:
  // Returns the GPU memory that an object takes, in elements of 4 bytes.
  static int64_t Elements(const ArenaLayout& layout, int chunk);

  PassTensors(PassGpu* gpu, const ArenaLayout& layout, int chunk);

  // Queues the sums; see TensorParts::Sum for `direction`.
  void BeginSum(const ChunkUpdatePass& direction, PassStream* pass_stream);
  // Returns them, once PassStream::Wait has returned OK.
  std::vector<TensorSquares> EndSum() const {
    return parts_.Totals(host_squares_.data());
  }

  // Queues the computation of the chunk's rows, with learning rate factors that
  // are multiplied by the trust ratios, and returns them. Valid until the next
  // call, which must come after PassStream::Wait.
  const ChunkRow* Scale(absl::Span<const float> trust_ratios,
                        PassStream* pass_stream);

 private:
  const TensorParts parts_;
  const std::vector<ChunkRow> rows_;
  // In the GPU's memory, and in the host's.
  ChunkRow* const scaled_rows_;
  std::vector<ChunkRow> host_rows_;
  BlockSquares* const squares_;
  std::vector<BlockSquares> host_squares_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_UPDATE_CUDA_PASS_TENSORS_H_
