// Causal multi-head attention; layout and formulas as in
// worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "common/numerics/philox.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/device.h"

namespace tributary::cuda {

// The probabilities exist only tile by tile: memory grows with `time`, not with
// its square (Dao, Fu, Ermon, Rudra and Re, "FlashAttention", 2022). Any
// head_size works; each further 64 elements take the scores' work once more.
// T is float, or Bfloat16: then tensor cores make the products, of which
// probabilities and their gradients are rounded factors, too. All other
// arithmetic is float32.
struct AttentionDropout {
  RandomStream stream;
  const RandomBase* base = nullptr;  // Of the GPU's memory.
  float rate = 0;
};

// `logarithmic_sums`, [batch, heads, time]: per row of scores, log(sum(exp)).
template <typename T>
void AttentionForward(Stream& stream, const AttentionShape& shape, const T* qkv,
                      const AttentionDropout& dropout, T* y,
                      float* logarithmic_sums);

// `scratch` is overwritten.
template <typename T>
void AttentionBackward(Stream& stream, Scratch& scratch,
                       const AttentionShape& shape, const T* qkv, const T* y,
                       const float* logarithmic_sums, const T* dy,
                       const AttentionDropout& dropout, T* dqkv);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_H_
