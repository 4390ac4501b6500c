// Sums of the squares of a gradient, with the same bits as
// common/parameters/gradient_squares.h. All arrays are in GPU memory.
#ifndef TRIBUTARY_SERVER_STORE_CUDA_SQUARE_SUMS_H_
#define TRIBUTARY_SERVER_STORE_CUDA_SQUARE_SUMS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/stream.h"
#include "server/store/cuda/chunk_rows.h"

namespace tributary::cuda {

// Returns cudaSuccess if this build has code for the calling thread's current
// GPU.
cudaError_t FindSumKernels();

// Number of partial sums that SumSquares computes.
inline constexpr int kSquareSums = 32;

// Computes partial sums of the squares of x[count], where count is a multiple
// of kRowElements. Adds the square of element i to sums[i % 16], or to sums[16
// + i % 16] if rows[i / kRowElements] is of group kStatistics. One of 32
// threads computes each partial sum, in the order of i. The additions of a
// thread depend on each other, so a chunk of 1 MiB takes about a millisecond;
// other chunks can run at the same time.
void SumSquares(Stream& stream, int64_t count, const float* x,
                const ChunkRow* rows, double* sums);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_SERVER_STORE_CUDA_SQUARE_SUMS_H_
