// Uses one warp per row: widths of up to a few thousand are a few dozen
// elements per lane, and warps need no barriers. Reads each row three times,
// the last two from the cache.
#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/column_sums.h"
#include "worker/device/cuda/kernels/normalization.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr int kRowsPerBlock = kBlockThreads / kWarp;

__device__ inline int64_t RowOfWarp() {
  return static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kWarp;
}

// x, y: [rows, width]; scale, shift (or null): [width]; means, inverses:
// [rows]. None overlap, so that several loads are in flight at a time.
template <typename T>
__global__ void ForwardKernel(int64_t rows, int64_t width,
                              const T* __restrict__ x,
                              const float* __restrict__ scale,
                              const float* __restrict__ shift,
                              T* __restrict__ y, float* __restrict__ means,
                              float* __restrict__ inverses) {
  const int64_t row = RowOfWarp();
  if (row >= rows) return;  // The whole warp returns.
  const int lane = threadIdx.x % kWarp;
  const T* __restrict__ in = x + row * width;
  T* __restrict__ out = y + row * width;

  float sum = 0;
#pragma unroll 4
  for (int64_t c = lane; c < width; c += kWarp) sum += in[c];
  const float mean = SumOfLanes(sum) / static_cast<float>(width);
  float squares = 0;
#pragma unroll 4
  for (int64_t c = lane; c < width; c += kWarp) {
    const float difference = in[c] - mean;
    squares += difference * difference;
  }
  const float variance = SumOfLanes(squares) / static_cast<float>(width);
  const float inverse = 1.0f / sqrtf(variance + kEpsilon);
#pragma unroll 4
  for (int64_t c = lane; c < width; c += kWarp) {
    const float normalized = (in[c] - mean) * inverse;
    out[c] = normalized * scale[c] + (shift == nullptr ? 0.0f : shift[c]);
  }
  if (lane == 0) {
    means[row] = mean;
    inverses[row] = inverse;
  }
}

// With n = (x - mean) inverse and g = dy scale: dx = inverse (g - mean(g) - n
// mean(g n)). Shapes as above; dx: [rows, width].
template <typename T>
__global__ void BackwardKernel(int64_t rows, int64_t width,
                               const T* __restrict__ x,
                               const float* __restrict__ scale,
                               const float* __restrict__ means,
                               const float* __restrict__ inverses,
                               const T* __restrict__ dy, bool accumulate,
                               T* __restrict__ dx) {
  const int64_t row = RowOfWarp();
  if (row >= rows) return;  // The whole warp returns.
  const int lane = threadIdx.x % kWarp;
  const T* __restrict__ in = x + row * width;
  const T* __restrict__ gradient = dy + row * width;
  T* __restrict__ out = dx + row * width;
  const float mean = means[row], inverse = inverses[row];

  float sum = 0, product_sum = 0;
#pragma unroll 4
  for (int64_t c = lane; c < width; c += kWarp) {
    const float g = gradient[c] * scale[c];
    sum += g;
    product_sum += g * ((in[c] - mean) * inverse);
  }
  const float g_mean = SumOfLanes(sum) / static_cast<float>(width);
  const float product_mean =
      SumOfLanes(product_sum) / static_cast<float>(width);
#pragma unroll 4
  for (int64_t c = lane; c < width; c += kWarp) {
    const float normalized = (in[c] - mean) * inverse;
    const float value =
        inverse * (gradient[c] * scale[c] - g_mean - normalized * product_mean);
    out[c] = accumulate ? float{out[c]} + value : value;
  }
}

}  // namespace

template <typename T>
void LayerNormForward(Stream& stream, int64_t rows, int64_t width, const T* x,
                      const float* scale, const float* shift, T* y, float* mean,
                      float* inverse_deviation) {
  Launch(stream, "LayerNormForward", CeilDivide(rows, kRowsPerBlock),
         kBlockThreads, &ForwardKernel<T>, rows, width, x, scale, shift, y,
         mean, inverse_deviation);
}

template <typename T>
void LayerNormBackward(Stream& stream, Scratch& scratch, int64_t rows,
                       int64_t width, const T* x, const float* scale,
                       const float* mean, const float* inverse_deviation,
                       const T* dy, const LayerNormGradients<T>& gradients) {
  Launch(stream, "LayerNormBackward", CeilDivide(rows, kRowsPerBlock),
         kBlockThreads, &BackwardKernel<T>, rows, width, x, scale, mean,
         inverse_deviation, dy, gradients.accumulate, gradients.dx);
  SumColumns<2>(stream, "LayerNormBackward", scratch, rows, width,
                [=] __device__(int64_t r, int64_t c, float(&sums)[2]) {
                  const float g = dy[r * width + c];
                  sums[0] +=
                      g * ((x[r * width + c] - mean[r]) * inverse_deviation[r]);
                  sums[1] += g;
                },
                {{gradients.dscale, gradients.dshift}});
}

#define TRIBUTARY_INSTANTIATE(T)                                         \
  template void LayerNormForward(Stream&, int64_t, int64_t, const T*,    \
                                 const float*, const float*, T*, float*, \
                                 float*);                                \
  template void LayerNormBackward(                                       \
      Stream&, Scratch&, int64_t, int64_t, const T*, const float*,       \
      const float*, const float*, const T*, const LayerNormGradients<T>&);
TRIBUTARY_INSTANTIATE(float)
TRIBUTARY_INSTANTIATE(Bfloat16)
#undef TRIBUTARY_INSTANTIATE

}  // namespace tributary::cuda
