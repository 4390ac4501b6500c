// Multi-head attention; layout and formulas as in
// worker/device/ops/attention_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "common/numerics/philox.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/ops/attention_ops.h"
#include "worker/device/ops/real.h"

namespace tributary::cuda {

// Kernels compute the probabilities tile by tile without storing them, so
// memory grows with `time` and not with its square (Dao, Fu, Ermon, Rudra and
// Re, "FlashAttention", 2022). Any head_size is supported, but the scores are
// computed again for every 64 elements of a head. T is float or Bfloat16. For
// Bfloat16, tensor cores compute the products; their operands, including
// probabilities and the gradients of probabilities, are rounded. All other
// arithmetic is float32. Bfloat16 is several times as fast with a head_size of
// 32, 64 or 128; see attention_bfloat16.h.

// Arguments of the dropout that is applied to the attention probabilities.
struct AttentionDropout {
  RandomStream stream;
  const RandomBase* base = nullptr;  // In GPU memory; added to `stream`.
  float rate = 0;
};

// Computes the output `y` of attention, and `logarithmic_sums`, [batch, heads,
// time], which AttentionBackward needs: log(sum(exp(score))) for each row of
// scores. `lengths`, [batch], may be null; see AttentionOps.
template <typename T>
void AttentionForward(Stream& stream, const AttentionShape& shape,
                      const int32_t* lengths, const T* qkv,
                      const AttentionDropout& dropout, T* y,
                      float* logarithmic_sums);

// Computes the gradient of attention: `dqkv`, the gradient of the input `qkv`,
// from `dy`, the gradient of the output `y`. `scratch` is overwritten.
template <typename T>
void AttentionBackward(Stream& stream, Scratch& scratch,
                       const AttentionShape& shape, const int32_t* lengths,
                       const T* qkv, const T* y, const float* logarithmic_sums,
                       const T* dy, const AttentionDropout& dropout, T* dqkv);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_H_
