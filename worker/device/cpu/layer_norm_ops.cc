#include <algorithm>
#include <cmath>

#include "common/numerics/simd.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"
#include "worker/device/cpu/kernels/elementwise.h"
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

// T is what Real stands for.
template <typename T>
class CpuLayerNormOps final : public LayerNormOps {
 public:
  explicit CpuLayerNormOps(Context* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    const int64_t width = args.width;
    InBlocks<T>(args.rows, width, kSmallBlock, [&](int64_t first, int64_t n) {
      const int64_t size = n * width, begin = first * width;
      const Real* x = args.x;
      if (args.branch != nullptr) {
        const float* const branch =
            Read<T>(context_, 1, size, args.branch, begin);
        float* const sum = Room<T>(context_, 1, size, args.sum, begin);
        if (sum != branch) std::copy_n(branch, size, sum);
        Add(size, Read<T>(context_, 0, size, x, begin), sum);
        Write<T>(size, sum, args.sum, begin);
        x = args.sum;
      }
      float* const out = Room<T>(context_, 1, size, args.y, begin);
      LayerNormForward(n, width, Read<T>(context_, 0, size, x, begin),
                       args.scale, args.shift, args.epsilon, out,
                       args.mean + first, args.inverse_deviation + first);
      Write<T>(size, out, args.y, begin);
    });
  }
  void Backward(const BackwardArguments& args) override {
    const int64_t width = args.width;
    // The first block writes the sums, later blocks add to them.
    InBlocks<T>(args.rows, width, kLargeBlock, [&](int64_t first, int64_t n) {
      const int64_t size = n * width, begin = first * width;
      const bool adds = first > 0;
      float* const scale_sum =
          adds ? context_->slots[3].Floats(2 * width) : args.dscale;
      float* const shift_sum =
          args.dshift != nullptr && adds ? scale_sum + width : args.dshift;
      float* const out = args.accumulate
                             ? Read<T>(context_, 2, size, args.dx, begin)
                             : Room<T>(context_, 2, size, args.dx, begin);
      LayerNormBackward(n, width, Read<T>(context_, 0, size, args.x, begin),
                        args.scale, args.mean + first,
                        args.inverse_deviation + first,
                        Read<T>(context_, 1, size, args.dy, begin),
                        args.accumulate, out, scale_sum, shift_sum);
      Write<T>(size, out, args.dx, begin);
      if (!adds) return;
      Add(width, scale_sum, args.dscale);
      if (args.dshift != nullptr) Add(width, shift_sum, args.dshift);
    });
  }

 private:
  Context* const context_;
};

}  // namespace

std::unique_ptr<LayerNormOps> CreateLayerNormOps(Precision precision,
                                                 Context* context) {
  return CreateOps<LayerNormOps, CpuLayerNormOps>(precision, context);
}

}  // namespace tributary::cpu
