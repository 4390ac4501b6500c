// Sums of the squares of gradients, with the same bits as
// common/parameters/gradient_squares.h. All arrays are in GPU memory.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_H_
#define TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/stream.h"
#include "common/optimizer/cuda/chunk_rows.h"

namespace tributary::cuda {

// Returns cudaSuccess if this build contains the kernel of SumSquares for the
// calling thread's current GPU, and an error of CUDA otherwise.
cudaError_t FindSumKernels();

// Maximum number of chunks in a call of UpdateChunks (update.h), which launches
// one kernel. The 4 KiB of a kernel's arguments could describe about 20 chunks.
inline constexpr int kGroupChunks = 8;

// Maximum number of chunks in a call of SumSquares, which launches one kernel.
// The arguments of a kernel may have up to 4 KiB, which is enough for 128
// chunks.
inline constexpr int kSquareChunks = 100;

// Number of partial sums of squares per chunk: 16 of gradients, and 16 of
// running statistics. See SquareSums.
inline constexpr int kSquareSums = 32;

// The arguments of SumSquares for one chunk. Computes 32 partial sums of the
// squares of x[i], for i < elements. `elements` is a multiple of kRowElements.
// The square of element i belongs to sums[i % 16], or to sums[16 + i % 16] if
// rows[i / kRowElements] belongs to running statistics (group kStatistics).
//
// Each of 32 threads computes one partial sum, in the order of i, which is also
// the order on CPUs. The additions of a thread depend on each other, so a chunk
// of 1 MiB takes at least 16,384 times the latency of an addition, about 0.1
// ms. The chunks of one launch are computed at the same time.
struct SquareSums {
  int64_t elements = 0;
  const float* x = nullptr;
  const ChunkRow* rows = nullptr;
  double* sums = nullptr;  // The results: kSquareSums numbers.
};

// Queues the computation of the partial sums of squares of up to kSquareChunks
// chunks, in one launch.
void SumSquares(Stream& stream, absl::Span<const SquareSums> chunks);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_OPTIMIZER_CUDA_SQUARE_SUMS_H_
