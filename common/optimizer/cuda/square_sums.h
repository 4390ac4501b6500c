// Sums of the squares of gradients, with the same bits as
// common/parameters/gradient_squares.h. All arrays are in GPU memory.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_H_
#define TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/stream.h"
#include "common/optimizer/cuda/chunk_rows.h"
#include "common/parameters/block_squares.h"

namespace tributary::cuda {

// Returns cudaSuccess if this build contains the kernel of SumSquares for the
// calling thread's current GPU, and a CUDA error otherwise.
cudaError_t FindSumKernels();

// Maximum number of chunks in a call of SumSquares, which launches one kernel.
// The arguments of a kernel may have up to 4 KiB, which is enough for about 120
// chunks.
inline constexpr int kSquareChunks = 100;

// Returns the number of blocks of kSquareBlock elements into which `elements`
// elements are divided. The last block may be shorter.
constexpr int64_t SquareBlocks(int64_t elements) {
  return (elements + kSquareBlock - 1) / kSquareBlock;
}

// The arguments of SumSquares for one chunk. Its elements are x[i], for i <
// elements. SumSquares writes the sums of the squares of block b to sums[b].
// rows[i / kRowElements] tells whether element i is a running statistic.
// `elements` is a multiple of kRowElements.
struct SquareSums {
  int64_t elements = 0;
  const float* x = nullptr;
  const ChunkRow* rows = nullptr;
  BlockSquares* sums = nullptr;  // The results: SquareBlocks(elements).
};

// Queues one kernel on `stream` that computes the sums of squares of up to
// kSquareChunks chunks and writes them to SquareSums::sums.
void SumSquares(Stream& stream, absl::Span<const SquareSums> chunks);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_H_
