#include "worker/device/cpu/pooling.h"

#include <cstring>

#include "common/simd.h"

namespace tributary::cpu {
namespace {

// Calls visit(place of the window's corner in its input plane, output index,
// first element of the input plane) for each window, in order of the outputs.
template <typename Visit>
TRIBUTARY_INLINE void ForEachWindow(const PoolShape& s, const Visit& visit) {
  int64_t output = 0;
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    const int64_t base = plane * s.in_height * s.in_width;
    for (int64_t i = 0; i < s.out_height; ++i) {
      for (int64_t j = 0; j < s.out_width; ++j) {
        visit(i * s.window * s.in_width + j * s.window, output++, base);
      }
    }
  }
}

}  // namespace

void MaxPoolForward(const PoolShape& shape, const float* x, float* y,
                    int32_t* argmax) {
  ForEachWindow(shape, [&](int64_t corner, int64_t output, int64_t base) {
    const float* plane = x + base;
    int64_t best = corner;
    for (int64_t i = 0; i < shape.window; ++i) {
      for (int64_t j = 0; j < shape.window; ++j) {
        const int64_t place = corner + i * shape.in_width + j;
        if (plane[place] > plane[best]) best = place;
      }
    }
    y[output] = plane[best];
    argmax[output] = static_cast<int32_t>(best);
  });
}

void MaxPoolBackward(const PoolShape& shape, const float* dy,
                     const int32_t* argmax, float* dx) {
  const int64_t in_plane = shape.in_height * shape.in_width;
  const int64_t out_plane = shape.out_height * shape.out_width;
  const int64_t planes = shape.batch * shape.channels;
  std::memset(dx, 0, planes * in_plane * sizeof(float));
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t o = 0; o < out_plane; ++o) {
      const int64_t output = plane * out_plane + o;
      dx[plane * in_plane + argmax[output]] = dy[output];
    }
  }
}

void AveragePoolForward(const PoolShape& shape, const float* x, float* y) {
  const float factor = 1.0f / static_cast<float>(shape.window * shape.window);
  ForEachWindow(shape, [&](int64_t corner, int64_t output, int64_t base) {
    const float* plane = x + base;
    float sum = 0;
    for (int64_t i = 0; i < shape.window; ++i) {
      for (int64_t j = 0; j < shape.window; ++j) {
        sum += plane[corner + i * shape.in_width + j];
      }
    }
    y[output] = sum * factor;
  });
}

void AveragePoolBackward(const PoolShape& shape, const float* dy, float* dx) {
  const float factor = 1.0f / static_cast<float>(shape.window * shape.window);
  std::memset(dx, 0,
              shape.batch * shape.channels * shape.in_height * shape.in_width *
                  sizeof(float));
  ForEachWindow(shape, [&](int64_t corner, int64_t output, int64_t base) {
    for (int64_t i = 0; i < shape.window; ++i) {
      for (int64_t j = 0; j < shape.window; ++j) {
        dx[base + corner + i * shape.in_width + j] = dy[output] * factor;
      }
    }
  });
}

}  // namespace tributary::cpu
