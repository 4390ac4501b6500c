// Uses one block per channel, whose warps process the images in turn. A block
// passes over its channel once for each sum that it needs; blocks exchange no
// data.
#include <algorithm>

#include "common/cuda/launch.h"
#include "worker/device/cuda/cuda_ops.h"
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

template <typename T>
struct Gradients {
  T* dx = nullptr;          // Shape of x; may be dy, or null.
  float* dscale = nullptr;  // [channels]
  float* dshift = nullptr;  // [channels]
  T* dresidual = nullptr;   // Shape of x, or null.
};

// With g = dy, or 0 where relu set y to 0: dx = scale inverse (g - mean(g) - (x
// - mean) inverse^2 mean(g (x - mean))).
template <typename T>
__global__ void __launch_bounds__(kChannelThreads, 1)
    BackwardKernel(BatchNormShape s, const T* x, const float* scale,
                   const float* means, const float* variances, const T* y,
                   const T* dy, Gradients<T> gradients) {
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

// T is what Real stands for.
template <typename T>
class CudaBatchNormOps final : public BatchNormOps {
 public:
  explicit CudaBatchNormOps(CudaContext* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    Run("BatchNormForward", &ForwardKernel<T>, args.shape, As<T>(args.x),
        args.scale, args.shift, As<T>(args.residual), As<T>(args.y), args.mean,
        args.variance);
  }
  void Evaluate(const EvaluateArguments& args) override {
    Run("BatchNormEvaluate", &EvaluateKernel<T>, args.shape, As<T>(args.x),
        args.scale, args.shift, args.mean, args.variance, As<T>(args.residual),
        As<T>(args.y));
  }
  void Backward(const BackwardArguments& args) override {
    const Gradients<T> gradients = {As<T>(args.dx), args.dscale, args.dshift,
                                    As<T>(args.dresidual)};
    Run("BatchNormBackward", &BackwardKernel<T>, args.shape, As<T>(args.x),
        args.scale, args.mean, args.variance, As<T>(args.y), As<T>(args.dy),
        gradients);
  }
  void StatisticsGradient(const StatisticsGradientArguments& args) override {
    const float factor = static_cast<float>(args.sample_count);
    const float unbiased =
        static_cast<float>(args.observations) /
        static_cast<float>(std::max<int64_t>(args.observations - 1, 1));
    const float *const mean = args.mean, *const variance = args.variance;
    const float* const running_mean = args.running_mean;
    const float* const running_variance = args.running_variance;
    float *const dmean = args.dmean, *const dvariance = args.dvariance;
    ForEach(context_->Current(), "BatchNormStatisticsGradient", args.channels,
            [=] __device__(int64_t c) {
              dmean[c] = factor * (running_mean[c] - mean[c]);
              dvariance[c] =
                  factor * (running_variance[c] - unbiased * variance[c]);
            });
  }

 private:
  // Runs a kernel with one block per channel and one warp per image of the
  // batch, up to the maximum.
  template <typename Kernel, typename... Arguments>
  void Run(const char* operation, Kernel kernel, const BatchNormShape& s,
           const Arguments&... arguments) {
    const dim3 threads(static_cast<unsigned>(
        std::min<int64_t>(s.batch * kWarp, kChannelThreads)));
    Launch(context_->Current(), operation, s.channels, threads, kernel, s,
           arguments...);
  }

  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<BatchNormOps> CreateBatchNormOps(Precision precision,
                                                 CudaContext* context) {
  return CreateOps<BatchNormOps, CudaBatchNormOps>(precision, context);
}

}  // namespace tributary::cuda
