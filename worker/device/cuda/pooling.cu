// Forward, a thread makes an output. Windows do not overlap, so backward it
// makes an element of dx: from the one window it is in, or 0 outside all.
#include "worker/device/cuda/launch.h"
#include "worker/device/cuda/pooling.h"

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

// Place in its input plane of the corner of output `place`'s window.
__device__ inline int64_t CornerOf(const PoolShape& s, int64_t place) {
  return place / s.out_width * s.window * s.in_width +
         place % s.out_width * s.window;
}

// Place in its output plane of the window that input `place` is in, -1 for
// none.
__device__ inline int64_t WindowOf(const PoolShape& s, int64_t place) {
  const int64_t i = place / s.in_width / s.window;
  const int64_t j = place % s.in_width / s.window;
  return i < s.out_height && j < s.out_width ? i * s.out_width + j : -1;
}

}  // namespace

void MaxPoolForward(Stream& stream, const PoolShape& shape, const float* x,
                    float* y, int32_t* argmax) {
  const PoolShape s = shape;
  ForEachInRows(stream, "MaxPoolForward", Planes(s), OutPlane(s),
                [=] __device__(int64_t plane, int64_t place) {
                  const float* in = x + plane * InPlane(s);
                  const int64_t corner = CornerOf(s, place);
                  int64_t best = corner;
                  for (int64_t i = 0; i < s.window; ++i) {
                    for (int64_t j = 0; j < s.window; ++j) {
                      const int64_t candidate = corner + i * s.in_width + j;
                      if (in[candidate] > in[best]) best = candidate;
                    }
                  }
                  const int64_t output = plane * OutPlane(s) + place;
                  y[output] = in[best];
                  argmax[output] = static_cast<int32_t>(best);
                });
}

void MaxPoolBackward(Stream& stream, const PoolShape& shape, const float* dy,
                     const int32_t* argmax, float* dx) {
  const PoolShape s = shape;
  ForEachInRows(stream, "MaxPoolBackward", Planes(s), InPlane(s),
                [=] __device__(int64_t plane, int64_t place) {
                  const int64_t window = WindowOf(s, place);
                  const int64_t output = plane * OutPlane(s) + window;
                  dx[plane * InPlane(s) + place] =
                      window >= 0 && argmax[output] == place ? dy[output]
                                                             : 0.0f;
                });
}

void AveragePoolForward(Stream& stream, const PoolShape& shape, const float* x,
                        float* y) {
  const PoolShape s = shape;
  const float factor = 1.0f / static_cast<float>(s.window * s.window);
  ForEachInRows(stream, "AveragePoolForward", Planes(s), OutPlane(s),
                [=] __device__(int64_t plane, int64_t place) {
                  const float* in = x + plane * InPlane(s) + CornerOf(s, place);
                  float sum = 0;
                  for (int64_t i = 0; i < s.window; ++i) {
                    for (int64_t j = 0; j < s.window; ++j) {
                      sum += in[i * s.in_width + j];
                    }
                  }
                  y[plane * OutPlane(s) + place] = sum * factor;
                });
}

void AveragePoolBackward(Stream& stream, const PoolShape& shape,
                         const float* dy, float* dx) {
  const PoolShape s = shape;
  const float factor = 1.0f / static_cast<float>(s.window * s.window);
  ForEachInRows(stream, "AveragePoolBackward", Planes(s), InPlane(s),
                [=] __device__(int64_t plane, int64_t place) {
                  const int64_t window = WindowOf(s, place);
                  dx[plane * InPlane(s) + place] =
                      window >= 0 ? dy[plane * OutPlane(s) + window] * factor
                                  : 0.0f;
                });
}

}  // namespace tributary::cuda
