// Adds gradients in a GPU's memory in the order of the reduction tree, the
// binary tree that fixes the order of additions. The results have the same bits
// as the results of common/numerics/half.h.
#ifndef TRIBUTARY_COMMON_CUDA_NODE_SUMS_H_
#define TRIBUTARY_COMMON_CUDA_NODE_SUMS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/stream.h"

namespace tributary::cuda {

// The number format to which each sum of gradients is rounded. The gradients of
// the micro-batches are added in the order of a binary tree, the reduction
// tree. The job's field exchange.wire_dtype selects the format.
enum class NodeFormat { kFloat32, kBfloat16, kFloat16 };

// Queues on `stream` the computation of to[i] = from[i], rounded to `format`,
// for i < count. `to` may equal `from`.
void RoundNode(Stream& stream, NodeFormat format, int64_t count,
               const float* from, float* to);

// Adds gradients. Queues on `stream` the computation of sum[i] = rounded
// (sum[i] + rounded x[i]), for i < count, where "rounded" means rounded to
// `format`. The elements of `sum` must be rounded already.
void AddNode(Stream& stream, NodeFormat format, int64_t count, const float* x,
             float* sum);

// Loads the code of AddNode for kFloat32 on the calling thread's current GPU.
// Otherwise CUDA loads it at the first launch, which may wait for everything
// that runs on the GPU.
cudaError_t LoadAddNode();

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_NODE_SUMS_H_
