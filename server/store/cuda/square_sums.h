// Sums of the squares of a gradient, with the bits of
// common/parameters/gradient_squares.h. All arrays are in the GPU's memory.
#ifndef TRIBUTARY_SERVER_STORE_CUDA_SQUARE_SUMS_H_
#define TRIBUTARY_SERVER_STORE_CUDA_SQUARE_SUMS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/stream.h"
#include "server/store/cuda/chunk_rows.h"

namespace tributary::cuda {

// Whether this build has code for the calling thread's current GPU.
cudaError_t FindSumKernels();

// Partial sums of the squares of x[count], count a multiple of kRowElements:
// element i belongs to number i % 16 of the first 16 of `sums`, or of the last
// 16 where rows[i / kRowElements] is of group kStatistics. Each is added up in
// the order of i, on one of 32 threads. The additions depend on each other: by
// the length of their chain, about a millisecond for a chunk of 1 MiB, beside
// other chunks'.
inline constexpr int kSquareSums = 32;
void SumSquares(Stream& stream, int64_t count, const float* x,
                const ChunkRow* rows, double* sums);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_SERVER_STORE_CUDA_SQUARE_SUMS_H_
