// Forward uses one thread per output. Backward uses one thread per element of
// dx, which reads the windows that contain it.
#include "common/cuda/launch.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {
namespace {

__host__ __device__ inline int64_t Planes(const PoolShape& s) {
  return s.batch * s.channels;
}
__host__ __device__ inline int64_t InPlane(const PoolShape& s) {
  return s.in_height * s.in_width;
}
__host__ __device__ inline int64_t OutPlane(const PoolShape& s) {
  return s.out_height * s.out_width;
}

// Returns the position, in its input plane, of the corner of output `place`'s
// window.
__device__ inline int64_t CornerOf(const PoolShape& s, int64_t place) {
  return place / s.out_width * s.window * s.in_width +
         place % s.out_width * s.window;
}

// Returns the position, in its output plane, of the window that contains input
// `place`, or -1.
__device__ inline int64_t WindowOf(const PoolShape& s, int64_t place) {
  const int64_t i = place / s.in_width / s.window;
  const int64_t j = place % s.in_width / s.window;
  return i < s.out_height && j < s.out_width ? i * s.out_width + j : -1;
}

// The range [begin, end).
struct Extent {
  int64_t begin, end;
};

// Returns the shape with a stride of 0 replaced by `window`.
PoolShape WithStride(PoolShape s) {
  s.stride = s.Stride();
  return s;
}

// Returns the part of window number `number`, along one side, within the image.
__device__ inline Extent WindowExtent(const PoolShape& s, int64_t number,
                                      int64_t side) {
  const int64_t begin = number * s.stride - s.padding;
  const int64_t end = begin + s.window;
  return {begin > 0 ? begin : 0, end < side ? end : side};
}

// Returns the windows, out of `count` along one side, that contain `place`.
__device__ inline Extent WindowsAt(const PoolShape& s, int64_t place,
                                   int64_t count) {
  const int64_t padded = place + s.padding, last = padded / s.stride;
  // Start of the last window position that misses `place`.
  const int64_t before = padded - s.window;
  return {before < 0 ? 0 : before / s.stride + 1,
          last < count ? last + 1 : count};
}

// y[plane] = mean of x[plane, pixels], computed by one block each.
template <typename T>
__global__ void PlaneMeansKernel(int64_t pixels, const T* x, T* y) {
  __shared__ float shared[kWarp];
  const T* plane = x + blockIdx.x * pixels;
  float sum = 0;
  for (int64_t p = threadIdx.x; p < pixels; p += blockDim.x) sum += plane[p];
  sum = BlockReduce(
      sum, [](float a, float b) { return a + b; }, shared);
  if (threadIdx.x == 0) y[blockIdx.x] = sum / static_cast<float>(pixels);
}

// T is what Real stands for.
template <typename T>
class CudaPoolingOps final : public PoolingOps {
 public:
  explicit CudaPoolingOps(CudaContext* context) : context_(context) {}

  void MaxForward(const MaxForwardArguments& args) override {
    const T* const x = As<T>(args.x);
    T* const y = As<T>(args.y);
    int32_t* const argmax = args.argmax;
    const PoolShape s = WithStride(args.shape);
    ForEachInRows(context_->Current(), "MaxPoolForward", Planes(s), OutPlane(s),
                  [=] __device__(int64_t plane, int64_t place) {
                    const T* in = x + plane * InPlane(s);
                    const Extent rows =
                        WindowExtent(s, place / s.out_width, s.in_height);
                    const Extent columns =
                        WindowExtent(s, place % s.out_width, s.in_width);
                    int64_t best = rows.begin * s.in_width + columns.begin;
                    for (int64_t i = rows.begin; i < rows.end; ++i) {
                      for (int64_t j = columns.begin; j < columns.end; ++j) {
                        const int64_t candidate = i * s.in_width + j;
                        if (float{in[candidate]} > float{in[best]})
                          best = candidate;
                      }
                    }
                    const int64_t output = plane * OutPlane(s) + place;
                    y[output] = in[best];
                    argmax[output] = static_cast<int32_t>(best);
                  });
  }
  void MaxBackward(const MaxBackwardArguments& args) override {
    const T* const dy = As<T>(args.dy);
    T* const dx = As<T>(args.dx);
    const int32_t* const argmax = args.argmax;
    const PoolShape s = WithStride(args.shape);
    ForEachInRows(
        context_->Current(), "MaxPoolBackward", Planes(s), InPlane(s),
        [=] __device__(int64_t plane, int64_t place) {
          const Extent rows = WindowsAt(s, place / s.in_width, s.out_height);
          const Extent columns = WindowsAt(s, place % s.in_width, s.out_width);
          float sum = 0;
          for (int64_t i = rows.begin; i < rows.end; ++i) {
            for (int64_t j = columns.begin; j < columns.end; ++j) {
              const int64_t output = plane * OutPlane(s) + i * s.out_width + j;
              if (argmax[output] == place) sum += dy[output];
            }
          }
          dx[plane * InPlane(s) + place] = sum;
        });
  }
  void AverageForward(const AverageForwardArguments& args) override {
    const T* const x = As<T>(args.x);
    T* const y = As<T>(args.y);
    const PoolShape s = args.shape;
    const float factor = 1.0f / static_cast<float>(s.window * s.window);
    ForEachInRows(context_->Current(), "AveragePoolForward", Planes(s),
                  OutPlane(s), [=] __device__(int64_t plane, int64_t place) {
                    const T* in = x + plane * InPlane(s) + CornerOf(s, place);
                    float sum = 0;
                    for (int64_t i = 0; i < s.window; ++i) {
                      for (int64_t j = 0; j < s.window; ++j) {
                        sum += in[i * s.in_width + j];
                      }
                    }
                    y[plane * OutPlane(s) + place] = sum * factor;
                  });
  }
  void AverageBackward(const AverageBackwardArguments& args) override {
    const T* const dy = As<T>(args.dy);
    T* const dx = As<T>(args.dx);
    const PoolShape s = args.shape;
    const float factor = 1.0f / static_cast<float>(s.window * s.window);
    ForEachInRows(context_->Current(), "AveragePoolBackward", Planes(s),
                  InPlane(s), [=] __device__(int64_t plane, int64_t place) {
                    const int64_t window = WindowOf(s, place);
                    dx[plane * InPlane(s) + place] =
                        window >= 0
                            ? float{dy[plane * OutPlane(s) + window]} * factor
                            : 0.0f;
                  });
  }
  void GlobalAverageForward(
      const GlobalAverageForwardArguments& args) override {
    const int threads = args.pixels < kBlockThreads ? kWarp : kBlockThreads;
    Launch(context_->Current(), "GlobalAveragePoolForward", args.planes,
           dim3(threads), &PlaneMeansKernel<T>, args.pixels, As<T>(args.x),
           As<T>(args.y));
  }
  void GlobalAverageBackward(
      const GlobalAverageBackwardArguments& args) override {
    const int64_t pixels = args.pixels;
    const T* const dy = As<T>(args.dy);
    T* const dx = As<T>(args.dx);
    ForEachInRows(context_->Current(), "GlobalAveragePoolBackward", args.planes,
                  pixels, [=] __device__(int64_t plane, int64_t p) {
                    dx[plane * pixels + p] =
                        float{dy[plane]} / static_cast<float>(pixels);
                  });
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<PoolingOps> CreatePoolingOps(Precision precision,
                                             CudaContext* context) {
  return CreateOps<PoolingOps, CudaPoolingOps>(precision, context);
}

}  // namespace tributary::cuda
