#include <cmath>

#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/attention_decode.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {
namespace {

// Number of threads of a block, of keys that a block computes at a time, and of
// columns of y that it writes.
constexpr int kDecodeThreads = 128;

// A block computes one query of one head, in a chunk of kDecodeThreads columns.
// For each further chunk of a head, the scores are computed again.
template <typename T>
__global__ void __launch_bounds__(kDecodeThreads)
    DecodeKernel(DecodeShape s, int64_t chunks, const T* qkv, const T* cache,
                 float scale, T* y) {
  __shared__ float weights[kDecodeThreads];
  __shared__ float shared[kWarp];
  const int64_t size = s.cache.head_size, capacity = s.cache.capacity;
  const int64_t column =
      blockIdx.x % chunks * kDecodeThreads + static_cast<int64_t>(threadIdx.x);
  const int64_t head = blockIdx.x / chunks % s.cache.heads;
  const int64_t query = blockIdx.x / (chunks * s.cache.heads);
  const T* const q = qkv + (query * 3 * s.cache.heads + head) * size;
  const T* const k = cache + head * 2 * size * capacity;
  const T* const v = k + size * capacity;
  const int64_t keys = s.past + query + 1;
  const auto larger_of = [](float a, float b) { return fmaxf(a, b); };
  const auto sum_of = [](float a, float b) { return a + b; };

  float maximum = -INFINITY, sum = 0, output = 0;
  for (int64_t first = 0; first < keys; first += kDecodeThreads) {
    const int64_t key = first + threadIdx.x;
    float score = -INFINITY;
    if (key < keys) {
      float product = 0;
      for (int64_t d = 0; d < size; ++d) {
        product += static_cast<float>(q[d]) *
                   static_cast<float>(k[d * capacity + key]);
      }
      score = product * scale;
    }
    const float larger = fmaxf(maximum, BlockReduce(score, larger_of, shared));
    const float weight = key < keys ? expf(score - larger) : 0.0f;
    // 0 for the first keys, before which the maximum is -infinity.
    const float factor = expf(maximum - larger);
    maximum = larger;
    sum = sum * factor + BlockReduce(weight, sum_of, shared);
    output *= factor;
    weights[threadIdx.x] = weight;
    __syncthreads();
    const int64_t count =
        keys - first < kDecodeThreads ? keys - first : kDecodeThreads;
    if (column < size) {
      for (int64_t j = 0; j < count; ++j) {
        output +=
            weights[j] * static_cast<float>(v[(first + j) * size + column]);
      }
    }
    __syncthreads();
  }
  if (column < size) {
    y[(query * s.cache.heads + head) * size + column] = output / sum;
  }
}

template <typename T>
void AppendToCache(Stream& stream, const DecodeShape& s, const T* qkv,
                   T* cache) {
  const int64_t heads = s.cache.heads, size = s.cache.head_size;
  const int64_t capacity = s.cache.capacity, past = s.past;
  ForEachInRows(stream, "AttentionDecode", s.count * heads, size,
                [=] __device__(int64_t row, int64_t d) {
                  const int64_t t = row / heads, head = row % heads;
                  const T* const from = qkv + (t * 3 * heads + head) * size + d;
                  T* const k = cache + head * 2 * size * capacity;
                  T* const v = k + size * capacity;
                  k[d * capacity + past + t] = from[heads * size];
                  v[(past + t) * size + d] = from[2 * heads * size];
                });
}

}  // namespace

template <typename T>
void DecodeAttention(Stream& stream, const DecodeShape& shape, const T* qkv,
                     T* cache, T* y) {
  AppendToCache(stream, shape, qkv, cache);
  const int64_t chunks = CeilDivide(shape.cache.head_size, kDecodeThreads);
  const float scale =
      1.0f / std::sqrt(static_cast<float>(shape.cache.head_size));
  Launch(stream, "AttentionDecode", shape.count * shape.cache.heads * chunks,
         dim3(kDecodeThreads), &DecodeKernel<T>, shape, chunks, qkv,
         static_cast<const T*>(cache), scale, y);
}

#define TRIBUTARY_INSTANTIATE(T) \
  template void DecodeAttention(Stream&, const DecodeShape&, const T*, T*, T*);
TRIBUTARY_INSTANTIATE(float)
TRIBUTARY_INSTANTIATE(Bfloat16)
#undef TRIBUTARY_INSTANTIATE

}  // namespace tributary::cuda
