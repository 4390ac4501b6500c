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
// calling thread's current GPU, and an error of CUDA otherwise.
cudaError_t FindSumKernels();

// Maximum number of chunks in a call of SumSquares, which launches one kernel.
// The arguments of a kernel may have up to 4 KiB, which is enough for about 120
// chunks.
inline constexpr int kSquareChunks = 100;

// Returns the number of blocks of kSquareBlock elements, of which the last may
// be shorter.
constexpr int64_t SquareBlocks(int64_t elements) {
  return (elements + kSquareBlock - 1) / kSquareBlock;
}

// The arguments of SumSquares for one chunk: computes the sums of the squares
// of x[i], for i < elements, in each block. `elements` is a multiple of
// kRowElements. rows[i / kRowElements] tells which elements are running
// statistics.
struct SquareSums {
  int64_t elements = 0;
  const float* x = nullptr;
  const ChunkRow* rows = nullptr;
  BlockSquares* sums = nullptr;  // The results: SquareBlocks(elements).
};

// Queues the computation of the sums of squares of up to kSquareChunks chunks,
// in one launch.
void SumSquares(Stream& stream, absl::Span<const SquareSums> chunks);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_H_
