// Incremental causal attention; see AttentionOps::Decode.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_DECODE_ATTENTION_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_DECODE_ATTENTION_H_

#include <cstdint>

#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/ops/attention_ops.h"

namespace tributary::cpu {

// Returns the number of floats of a key-value cache. For each head, the cache
// holds K^T / sqrt(head_size), [head_size, capacity rounded up to a multiple of
// the vector size], and then V, [capacity, head_size].
int64_t AttentionCacheElements(const AttentionOps::CacheShape& shape);

// Implements AttentionOps::Decode: adds the keys and values of `count` tokens
// to a cache that holds `past` tokens, and computes attention for the added
// tokens. qkv: [count, 3, heads, head_size]; y: [count, heads, head_size].
// `scratch` is overwritten.
void DecodeAttention(const AttentionOps::CacheShape& shape, int64_t past,
                     int64_t count, const float* qkv, float* cache,
                     Scratch& scratch, float* y);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_DECODE_ATTENTION_H_
