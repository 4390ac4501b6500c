// Incremental causal attention; see AttentionOps::Decode.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_DECODE_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_DECODE_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/ops/attention_ops.h"

namespace tributary::cuda {

// The shape of one call of DecodeAttention. The key-value cache holds the keys
// and values of `past` tokens; the call adds those of `count` tokens.
struct DecodeShape {
  AttentionOps::CacheShape cache;
  int64_t past = 0, count = 0;
};

// Implements AttentionOps::Decode. T is float or Bfloat16; all arithmetic is in
// float32. For each head, `cache` holds K^T, [head_size, capacity], and then V,
// [capacity, head_size]. qkv: [count, 3, heads, head_size]; y: [count, heads,
// head_size].
template <typename T>
void DecodeAttention(Stream& stream, const DecodeShape& shape, const T* qkv,
                     T* cache, T* y);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ATTENTION_DECODE_H_
