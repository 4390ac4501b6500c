// Sums of contributions, with the bits of common/half.h and
// common/gradient_squares.h. All arrays are in the GPU's memory.
#ifndef TRIBUTARY_SERVER_CUDA_GRADIENT_SUMS_H_
#define TRIBUTARY_SERVER_CUDA_GRADIENT_SUMS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/stream.h"
#include "server/cuda/chunk_rows.h"

namespace tributary::cuda {

// Whether this build has code for the calling thread's current GPU.
cudaError_t FindSumKernels();

// What the nodes of the reduction tree are rounded to: exchange.wire_dtype.
enum class NodeFormat { kFloat32, kBfloat16, kFloat16 };

// values[i] = rounded values[i]; nothing for kFloat32.
void RoundNode(Stream& stream, NodeFormat format, int64_t count, float* values);

// sum[i] = rounded (sum[i] + x[i]), of numbers that are rounded already.
void AddNode(Stream& stream, NodeFormat format, int64_t count, const float* x,
             float* sum);

// Partial sums of the squares of x[count], count a multiple of kRowElements:
// element i belongs to number i % 16 of the first 16 of `sums`, or of the last
// 16 where rows[i / kRowElements] is of group kStatistics. Each is added up in
// the order of i, on one of 32 threads: a tenth of a millisecond for a chunk of
// 1 MiB, beside other chunks'.
inline constexpr int kSquareSums = 32;
void SumSquares(Stream& stream, int64_t count, const float* x,
                const ChunkRow* rows, double* sums);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_SERVER_CUDA_GRADIENT_SUMS_H_
