// Computes the sums of the nodes of the reduction tree in a GPU's memory. The
// results have the same bits as the results of common/numerics/half.h.
#ifndef TRIBUTARY_COMMON_CUDA_NODE_SUMS_H_
#define TRIBUTARY_COMMON_CUDA_NODE_SUMS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/stream.h"

namespace tributary::cuda {

// The format to which the sums of the reduction tree's nodes are rounded:
// exchange.wire_dtype.
enum class NodeFormat { kFloat32, kBfloat16, kFloat16 };

// Queues the computation of to[i] = rounded from[i], for i < count. `to` may
// equal `from`.
void RoundNode(Stream& stream, NodeFormat format, int64_t count,
               const float* from, float* to);

// Queues the computation of sum[i] = rounded (sum[i] + rounded x[i]), for i <
// count. The elements of `sum` must be rounded already.
void AddNode(Stream& stream, NodeFormat format, int64_t count, const float* x,
             float* sum);

// Loads the code of AddNode for kFloat32 on the calling thread's current GPU.
// Otherwise CUDA loads it at the first launch, which may wait for everything
// that runs on the GPU.
cudaError_t LoadAddNode();

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_NODE_SUMS_H_
