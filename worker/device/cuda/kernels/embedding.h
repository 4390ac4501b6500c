// Embedding tables; formulas and shapes as in
// worker/device/ops/embedding_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_EMBEDDING_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_EMBEDDING_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/scratch.h"

namespace tributary::cuda {

// Sets y to the sum of the token embedding and the position embedding. With
// `accumulate`, adds the sum to y instead. `position_table` may be null. In all
// functions of this file, T is the type that represents Real: float or
// Bfloat16.
template <typename T>
void EmbeddingForward(Stream& stream, int64_t batch, int64_t time,
                      int64_t width, const int32_t* tokens,
                      const float* token_table, const float* position_table,
                      bool accumulate, T* y);

struct EmbeddingGradients {
  bool accumulate = false;           // True to add to dtoken_table.
  float* dtoken_table = nullptr;     // [vocabulary, width]
  float* dposition_table = nullptr;  // [at least time, width], or null.
};

// Computes the gradients of the token table and the position table. Requires
// batch * time < 2^31. `scratch` is overwritten.
template <typename T>
void EmbeddingBackward(Stream& stream, Scratch& scratch, int64_t batch,
                       int64_t time, int64_t width, int64_t vocabulary,
                       const int32_t* tokens, const T* dy,
                       const EmbeddingGradients& gradients);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_EMBEDDING_H_
