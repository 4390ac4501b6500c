#include "worker/device/cpu/kernels/normalization.h"

#include <cmath>

#include "common/numerics/simd.h"
#include "worker/device/cpu/kernels/reductions.h"

namespace tributary::cpu {
namespace {

using simd::kLanes;
using simd::Lanes;

// Returns the sum of (x - mean)^2. Uses a second pass because sum(x^2) - width
// mean^2 loses all digits where the mean is large.
TRIBUTARY_INLINE float RowSquares(int64_t width, const float* x, float mean) {
  Lanes sum = {};
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    const Lanes d = simd::Load(x + c) - mean;
    sum += d * d;
  }
  float rest = 0;
  for (; c < width; ++c) rest += (x[c] - mean) * (x[c] - mean);
  return simd::Sum(sum) + rest;
}

struct RowGradientSums {
  float g = 0;       // Sum of dy scale.
  float g_xhat = 0;  // Sum of dy scale xhat.
};

TRIBUTARY_INLINE RowGradientSums SumGradients(int64_t width, const float* x,
                                              const float* scale,
                                              const float* dy, float mean,
                                              float inverse_deviation) {
  Lanes g_sum = {}, g_xhat_sum = {};
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    const Lanes xhat = (simd::Load(x + c) - mean) * inverse_deviation;
    const Lanes g = simd::Load(dy + c) * simd::Load(scale + c);
    g_sum += g;
    g_xhat_sum += g * xhat;
  }
  RowGradientSums rest;
  for (; c < width; ++c) {
    const float g = dy[c] * scale[c];
    rest.g += g;
    rest.g_xhat += g * ((x[c] - mean) * inverse_deviation);
  }
  return {simd::Sum(g_sum) + rest.g, simd::Sum(g_xhat_sum) + rest.g_xhat};
}

}  // namespace

TRIBUTARY_MULTIVERSION
void LayerNormForward(int64_t rows, int64_t width, const float* x,
                      const float* scale, const float* shift, float epsilon,
                      float* y, float* mean, float* inverse_deviation) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * width;
    float* out = y + r * width;
    const float m = RowSum(width, row) / static_cast<float>(width);
    const float variance =
        RowSquares(width, row, m) / static_cast<float>(width);
    const float inverse = 1.0f / std::sqrt(variance + epsilon);
    mean[r] = m;
    inverse_deviation[r] = inverse;
    for (int64_t c = 0; c < width; ++c) {
      out[c] = (row[c] - m) * inverse * scale[c];
    }
    if (shift == nullptr) continue;
    for (int64_t c = 0; c < width; ++c) out[c] += shift[c];
  }
}

TRIBUTARY_MULTIVERSION
void LayerNormBackward(int64_t rows, int64_t width, const float* x,
                       const float* scale, const float* mean,
                       const float* inverse_deviation, const float* dy,
                       bool accumulate, float* dx, float* dscale,
                       float* dshift) {
  for (int64_t c = 0; c < width; ++c) dscale[c] = 0;
  if (dshift != nullptr) {
    for (int64_t c = 0; c < width; ++c) dshift[c] = 0;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * width;
    const float* d = dy + r * width;
    const float m = mean[r], inverse = inverse_deviation[r];
    if (dshift != nullptr) {
      for (int64_t c = 0; c < width; ++c) dshift[c] += d[c];
    }
    if (dx == nullptr) {
      for (int64_t c = 0; c < width; ++c) {
        dscale[c] += d[c] * ((row[c] - m) * inverse);
      }
      continue;
    }
    float* out = dx + r * width;
    const RowGradientSums sums = SumGradients(width, row, scale, d, m, inverse);
    const float g_mean = sums.g / static_cast<float>(width);
    const float g_xhat_mean = sums.g_xhat / static_cast<float>(width);
    for (int64_t c = 0; c < width; ++c) {
      const float xhat = (row[c] - m) * inverse;
      const float gradient =
          inverse * (d[c] * scale[c] - g_mean - xhat * g_xhat_mean);
      dscale[c] += d[c] * xhat;
      out[c] = accumulate ? out[c] + gradient : gradient;
    }
  }
}

}  // namespace tributary::cpu
