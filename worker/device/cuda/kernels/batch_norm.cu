// Uses one block per channel, whose warps process the images in turn. A block
// passes over its channel once for each sum that it needs; blocks exchange no
// data.
#include <algorithm>

#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/batch_norm.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {
namespace {

constexpr float kEpsilon = 1e-5f;
// The launch bounds also name the blocks at once, 1: without this number, ptxas
// uses fewer registers than it may, and spills.
constexpr int kChannelThreads = 1024;

// Calls visit(element) for this thread's elements of the block's channel.
template <typename Visit>
__device__ void ForEachElement(const BatchNormShape& s, const Visit& visit) {
  const int warps = blockDim.x / kWarp;
  for (int64_t n = threadIdx.x / kWarp; n < s.batch; n += warps) {
    const int64_t plane = (n * s.channels + blockIdx.x) * s.pixels;
    for (int64_t p = threadIdx.x % kWarp; p < s.pixels; p += kWarp) {
      visit(plane + p);
    }
  }
}

__device__ float Sum(float value, float* shared) {
  return BlockReduce(
      value, [](float a, float b) { return a + b; }, shared);
}

__device__ inline float InverseDeviation(float variance) {
  return 1.0f / sqrtf(variance + kEpsilon);
}

// NaN stays NaN.
__device__ inline float Relu(bool relu, float v) {
  return relu && v < 0.0f ? 0.0f : v;
}

struct Normalization {
  float mean, factor, shift;
};

template <typename T>
__device__ void Normalize(const BatchNormShape& s, const Normalization& by,
                          const T* x, const T* residual, T* y) {
  ForEachElement(s, [&](int64_t e) {
    float v = (x[e] - by.mean) * by.factor + by.shift;
    if (residual != nullptr) v += residual[e];
    y[e] = Relu(s.relu, v);
  });
}

// The variance takes a second pass: the mean square minus the squared mean
// would lose all digits where the mean is large.
template <typename T>
__global__ void __launch_bounds__(kChannelThreads, 1)
    ForwardKernel(BatchNormShape s, const T* x, const float* scale,
                  const float* shift, const T* residual, T* y, float* means,
                  float* variances) {
  __shared__ float shared[kWarp];
  const int64_t c = blockIdx.x;
  const float count = static_cast<float>(s.batch * s.pixels);
  float sum = 0, squares = 0;
  ForEachElement(s, [&](int64_t e) { sum += x[e]; });
  const float mean = Sum(sum, shared) / count;
  ForEachElement(s, [&](int64_t e) {
    const float difference = x[e] - mean;
    squares += difference * difference;
  });
  const float variance = Sum(squares, shared) / count;
  Normalize(s, {mean, InverseDeviation(variance) * scale[c], shift[c]}, x,
            residual, y);
  if (threadIdx.x == 0) {
    means[c] = mean;
    variances[c] = variance;
  }
}

template <typename T>
__global__ void __launch_bounds__(kChannelThreads, 1)
    EvaluateKernel(BatchNormShape s, const T* x, const float* scale,
                   const float* shift, const float* means,
                   const float* variances, const T* residual, T* y) {
  const int64_t c = blockIdx.x;
  const float variance = variances[c] < 0.0f ? 0.0f : variances[c];
  Normalize(s, {means[c], InverseDeviation(variance) * scale[c], shift[c]}, x,
            residual, y);
}

// With g = dy, or 0 where relu set y to 0: dx = scale inverse (g - mean(g) - (x
// - mean) inverse^2 mean(g (x - mean))).
template <typename T>
__global__ void __launch_bounds__(kChannelThreads, 1)
    BackwardKernel(BatchNormShape s, const T* x, const float* scale,
                   const float* means, const float* variances, const T* y,
                   const T* dy, BatchNormGradients<T> gradients) {
  __shared__ float shared[kWarp];
  const int64_t c = blockIdx.x;
  const float mean = means[c], inverse = InverseDeviation(variances[c]);
  const auto gradient_at = [&](int64_t e) {
    return !s.relu || y[e] > 0.0f ? float{dy[e]} : 0.0f;
  };
  float g_sum = 0, g_x_sum = 0;
  ForEachElement(s, [&](int64_t e) {
    const float g = gradient_at(e);
    g_sum += g;
    g_x_sum += g * (x[e] - mean);
    if (gradients.dresidual != nullptr) gradients.dresidual[e] = g;
  });
  // The barriers in Sum also permit dx to be dy.
  const float dshift = Sum(g_sum, shared);
  const float dscale = Sum(g_x_sum, shared) * inverse;
  const float count = static_cast<float>(s.batch * s.pixels);
  const float factor = scale[c] * inverse;
  const float g_mean = dshift / count, slope = inverse * (dscale / count);
  if (gradients.dx != nullptr) {
    ForEachElement(s, [&](int64_t e) {
      gradients.dx[e] =
          factor * (gradient_at(e) - g_mean - (x[e] - mean) * slope);
    });
  }
  if (threadIdx.x == 0) {
    gradients.dscale[c] = dscale;
    gradients.dshift[c] = dshift;
  }
}

// Returns one warp per image of the batch, up to the maximum.
dim3 ThreadsFor(const BatchNormShape& s) {
  return dim3(static_cast<unsigned>(
      std::min<int64_t>(s.batch * kWarp, kChannelThreads)));
}

}  // namespace

template <typename T>
void BatchNormForward(Stream& stream, const BatchNormShape& shape, const T* x,
                      const float* scale, const float* shift, const T* residual,
                      T* y, float* mean, float* variance) {
  Launch(stream, "BatchNormForward", shape.channels, ThreadsFor(shape),
         &ForwardKernel<T>, shape, x, scale, shift, residual, y, mean,
         variance);
}

template <typename T>
void BatchNormEvaluate(Stream& stream, const BatchNormShape& shape, const T* x,
                       const float* scale, const float* shift,
                       const float* mean, const float* variance,
                       const T* residual, T* y) {
  Launch(stream, "BatchNormEvaluate", shape.channels, ThreadsFor(shape),
         &EvaluateKernel<T>, shape, x, scale, shift, mean, variance, residual,
         y);
}

template <typename T>
void BatchNormBackward(Stream& stream, const BatchNormShape& shape, const T* x,
                       const float* scale, const float* mean,
                       const float* variance, const T* y, const T* dy,
                       const BatchNormGradients<T>& gradients) {
  Launch(stream, "BatchNormBackward", shape.channels, ThreadsFor(shape),
         &BackwardKernel<T>, shape, x, scale, mean, variance, y, dy, gradients);
}

void BatchNormStatisticsGradient(Stream& stream, int64_t channels,
                                 int64_t observations, int64_t sample_count,
                                 const BatchStatistics& micro_batch,
                                 const BatchStatistics& running, float* dmean,
                                 float* dvariance) {
  const float factor = static_cast<float>(sample_count);
  const float unbiased =
      static_cast<float>(observations) /
      static_cast<float>(std::max<int64_t>(observations - 1, 1));
  ForEach(stream, "BatchNormStatisticsGradient", channels,
          [=] __device__(int64_t c) {
            dmean[c] = factor * (running.mean[c] - micro_batch.mean[c]);
            dvariance[c] = factor * (running.variance[c] -
                                     unbiased * micro_batch.variance[c]);
          });
}

#define TRIBUTARY_INSTANTIATE(T)                                            \
  template void BatchNormForward(Stream&, const BatchNormShape&, const T*,  \
                                 const float*, const float*, const T*, T*,  \
                                 float*, float*);                           \
  template void BatchNormEvaluate(Stream&, const BatchNormShape&, const T*, \
                                  const float*, const float*, const float*, \
                                  const float*, const T*, T*);              \
  template void BatchNormBackward(                                          \
      Stream&, const BatchNormShape&, const T*, const float*, const float*, \
      const float*, const T*, const T*, const BatchNormGradients<T>&);
TRIBUTARY_INSTANTIATE(float)
TRIBUTARY_INSTANTIATE(Bfloat16)
#undef TRIBUTARY_INSTANTIATE

}  // namespace tributary::cuda
