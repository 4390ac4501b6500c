// Forward uses one thread per output. Backward uses one thread per element of
// dx, which reads the windows that contain it.
#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/pooling.h"
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

}  // namespace

template <typename T>
void MaxPoolForward(Stream& stream, const PoolShape& shape, const T* x, T* y,
                    int32_t* argmax) {
  const PoolShape s = WithStride(shape);
  ForEachInRows(
      stream, "MaxPoolForward", Planes(s), OutPlane(s),
      [=] __device__(int64_t plane, int64_t place) {
        const T* in = x + plane * InPlane(s);
        const Extent rows = WindowExtent(s, place / s.out_width, s.in_height);
        const Extent columns = WindowExtent(s, place % s.out_width, s.in_width);
        int64_t best = rows.begin * s.in_width + columns.begin;
        for (int64_t i = rows.begin; i < rows.end; ++i) {
          for (int64_t j = columns.begin; j < columns.end; ++j) {
            const int64_t candidate = i * s.in_width + j;
            if (float{in[candidate]} > float{in[best]}) best = candidate;
          }
        }
        const int64_t output = plane * OutPlane(s) + place;
        y[output] = in[best];
        argmax[output] = static_cast<int32_t>(best);
      });
}

template <typename T>
void MaxPoolBackward(Stream& stream, const PoolShape& shape, const T* dy,
                     const int32_t* argmax, T* dx) {
  const PoolShape s = WithStride(shape);
  ForEachInRows(
      stream, "MaxPoolBackward", Planes(s), InPlane(s),
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

template <typename T>
void AveragePoolForward(Stream& stream, const PoolShape& shape, const T* x,
                        T* y) {
  const PoolShape s = shape;
  const float factor = 1.0f / static_cast<float>(s.window * s.window);
  ForEachInRows(stream, "AveragePoolForward", Planes(s), OutPlane(s),
                [=] __device__(int64_t plane, int64_t place) {
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

template <typename T>
void AveragePoolBackward(Stream& stream, const PoolShape& shape, const T* dy,
                         T* dx) {
  const PoolShape s = shape;
  const float factor = 1.0f / static_cast<float>(s.window * s.window);
  ForEachInRows(stream, "AveragePoolBackward", Planes(s), InPlane(s),
                [=] __device__(int64_t plane, int64_t place) {
                  const int64_t window = WindowOf(s, place);
                  dx[plane * InPlane(s) + place] =
                      window >= 0
                          ? float{dy[plane * OutPlane(s) + window]} * factor
                          : 0.0f;
                });
}

template <typename T>
void GlobalAveragePoolForward(Stream& stream, int64_t planes, int64_t pixels,
                              const T* x, T* y) {
  const int threads = pixels < kBlockThreads ? kWarp : kBlockThreads;
  Launch(stream, "GlobalAveragePoolForward", planes, dim3(threads),
         &PlaneMeansKernel<T>, pixels, x, y);
}

template <typename T>
void GlobalAveragePoolBackward(Stream& stream, int64_t planes, int64_t pixels,
                               const T* dy, T* dx) {
  ForEachInRows(stream, "GlobalAveragePoolBackward", planes, pixels,
                [=] __device__(int64_t plane, int64_t p) {
                  dx[plane * pixels + p] =
                      float{dy[plane]} / static_cast<float>(pixels);
                });
}

#define TRIBUTARY_INSTANTIATE(T)                                               \
  template void MaxPoolForward(Stream&, const PoolShape&, const T*, T*,        \
                               int32_t*);                                      \
  template void MaxPoolBackward(Stream&, const PoolShape&, const T*,           \
                                const int32_t*, T*);                           \
  template void AveragePoolForward(Stream&, const PoolShape&, const T*, T*);   \
  template void AveragePoolBackward(Stream&, const PoolShape&, const T*, T*);  \
  template void GlobalAveragePoolForward(Stream&, int64_t, int64_t, const T*,  \
                                         T*);                                  \
  template void GlobalAveragePoolBackward(Stream&, int64_t, int64_t, const T*, \
                                          T*);
TRIBUTARY_INSTANTIATE(float)
TRIBUTARY_INSTANTIATE(Bfloat16)
#undef TRIBUTARY_INSTANTIATE

}  // namespace tributary::cuda
