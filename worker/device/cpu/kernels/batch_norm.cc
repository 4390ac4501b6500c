// Each pass over a few channels is followed by the next one while the cache has
// them, so memory is read once.
#include "worker/device/cpu/kernels/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "common/numerics/simd.h"

namespace tributary::cpu {
namespace {

constexpr int kHalf = 8;
typedef float Half __attribute__((vector_size(4 * kHalf)));
typedef float UnalignedHalf
    __attribute__((vector_size(4 * kHalf), aligned(4), may_alias));

// Sixteen floats in the registers of AVX2: the compiler would keep simd::Lanes,
// for which it has none there, on the stack.
struct Lanes {
  Half low, high;
};
constexpr int64_t kLanes = 2 * kHalf;

TRIBUTARY_INLINE Lanes operator+(Lanes a, Lanes b) {
  return {a.low + b.low, a.high + b.high};
}
TRIBUTARY_INLINE Lanes operator-(Lanes a, Lanes b) {
  return {a.low - b.low, a.high - b.high};
}
TRIBUTARY_INLINE Lanes operator*(Lanes a, Lanes b) {
  return {a.low * b.low, a.high * b.high};
}
TRIBUTARY_INLINE Lanes operator+(Lanes a, float b) {
  return {a.low + b, a.high + b};
}
TRIBUTARY_INLINE Lanes operator-(Lanes a, float b) {
  return {a.low - b, a.high - b};
}
TRIBUTARY_INLINE Lanes operator*(Lanes a, float b) {
  return {a.low * b, a.high * b};
}

// In the order of simd::Sum.
TRIBUTARY_INLINE float Sum(Lanes v) {
  const Half a = v.low + v.high;
  const float b0 = a[0] + a[4], b1 = a[1] + a[5], b2 = a[2] + a[6],
              b3 = a[3] + a[7];
  return (b0 + b2) + (b1 + b3);
}

TRIBUTARY_INLINE Half LoadHalf(const float* from) {
  return *reinterpret_cast<const UnalignedHalf*>(from);
}
TRIBUTARY_INLINE void StoreHalf(float* to, Half value) {
  *reinterpret_cast<UnalignedHalf*>(to) = value;
}

// Channels that a pass takes at a time. They lie together in each image: enough
// of them make runs of some 4 KiB, which the hardware reads ahead; more, or
// larger ones, would not stay in the second-level cache between passes.
constexpr int64_t kRunElements = 1024;
constexpr int64_t kMaxChannels = 64;

struct Channels {
  int64_t begin, count;
};

// Calls pass(channels) for groups that make up all channels.
template <typename Pass>
TRIBUTARY_INLINE void ForEachGroup(const BatchNormShape& s, const Pass& pass) {
  const int64_t size =
      std::clamp<int64_t>(kRunElements / s.pixels, 1, kMaxChannels);
  for (int64_t begin = 0; begin < s.channels; begin += size) {
    pass(Channels{begin, std::min(size, s.channels - begin)});
  }
}

// Calls visit(channel, its number in the group, first element) for each plane
// of the group, image by image.
template <typename Visit>
TRIBUTARY_INLINE void ForEachPlane(const BatchNormShape& s, Channels group,
                                   const Visit& visit) {
  for (int64_t n = 0; n < s.batch; ++n) {
    const int64_t image = n * s.channels;
    for (int64_t i = 0; i < group.count; ++i) {
      const int64_t c = group.begin + i;
      visit(c, i, (image + c) * s.pixels);
    }
  }
}

// Calls visit(begin, count) for vectors that make up a plane; only the last may
// have fewer than kLanes elements.
template <typename Visit>
TRIBUTARY_INLINE void ForEachVector(int64_t pixels, const Visit& visit) {
  int64_t i = 0;
  for (; i + kLanes <= pixels; i += kLanes) visit(i, kLanes);
  if (i < pixels) visit(i, pixels - i);
}

// The lanes behind `count` are 0.
TRIBUTARY_INLINE Lanes Read(const float* from, int64_t count) {
  if (count == kLanes) return {LoadHalf(from), LoadHalf(from + kHalf)};
  alignas(64) float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return {LoadHalf(lanes), LoadHalf(lanes + kHalf)};
}

TRIBUTARY_INLINE void Write(float* to, int64_t count, Lanes value) {
  if (count == kLanes) {
    StoreHalf(to, value.low);
    StoreHalf(to + kHalf, value.high);
    return;
  }
  alignas(64) float lanes[kLanes];
  StoreHalf(lanes, value.low);
  StoreHalf(lanes + kHalf, value.high);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// `value` in the first `count` lanes, 0 in the others.
TRIBUTARY_INLINE Lanes Spread(float value, int64_t count) {
  if (count == kLanes) return Lanes{} + value;
  alignas(64) float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = value;
  return {LoadHalf(lanes), LoadHalf(lanes + kHalf)};
}

// NaN stays NaN.
TRIBUTARY_INLINE Lanes Relu(Lanes v) {
  const Half zero = {};
  return {v.low < zero ? zero : v.low, v.high < zero ? zero : v.high};
}

// g where y > 0, else 0.
TRIBUTARY_INLINE Lanes WherePositive(Lanes y, Lanes g) {
  const Half zero = {};
  return {y.low > zero ? g.low : zero, y.high > zero ? g.high : zero};
}

TRIBUTARY_INLINE float InverseDeviation(float variance) {
  return 1.0f / std::sqrt(variance + kBatchNormEpsilon);
}

TRIBUTARY_INLINE void Means(const BatchNormShape& s, Channels group,
                            const float* x, float* mean) {
  Lanes sums[kMaxChannels] = {};
  ForEachPlane(
      s, group,
      [&](int64_t, int64_t i, int64_t plane) __attribute__((always_inline)) {
        Lanes sum = {};
        ForEachVector(
            s.pixels, [&](int64_t at, int64_t count)
                          __attribute__((always_inline)) {
                            sum = sum + Read(x + plane + at, count);
                          });
        sums[i] = sums[i] + sum;
      });
  const auto count = static_cast<float>(s.batch * s.pixels);
  for (int64_t i = 0; i < group.count; ++i) {
    mean[group.begin + i] = Sum(sums[i]) / count;
  }
}

// In a second pass: the mean square less the squared mean would lose all digits
// where the mean is large.
TRIBUTARY_INLINE void Variances(const BatchNormShape& s, Channels group,
                                const float* x, const float* mean,
                                float* variance) {
  Lanes sums[kMaxChannels] = {};
  ForEachPlane(
      s, group,
      [&](int64_t c, int64_t i, int64_t plane) __attribute__((always_inline)) {
        Lanes sum = {};
        ForEachVector(
            s.pixels, [&](int64_t at, int64_t count)
                          __attribute__((always_inline)) {
                            const Lanes d = Read(x + plane + at, count) -
                                            Spread(mean[c], count);
                            sum = sum + d * d;
                          });
        sums[i] = sums[i] + sum;
      });
  const auto count = static_cast<float>(s.batch * s.pixels);
  for (int64_t i = 0; i < group.count; ++i) {
    variance[group.begin + i] = Sum(sums[i]) / count;
  }
}

// One plane of y; residual may be null.
TRIBUTARY_INLINE void NormalizePlane(int64_t pixels, bool relu, const float* x,
                                     float mean, float factor, float shift,
                                     const float* residual, float* y) {
  ForEachVector(
      pixels, [&](int64_t at, int64_t count) __attribute__((always_inline)) {
        Lanes v = (Read(x + at, count) - mean) * factor + shift;
        if (residual != nullptr) {
          v = v + Read(residual + at, count);
        }
        Write(y + at, count, relu ? Relu(v) : v);
      });
}

TRIBUTARY_INLINE void Normalize(const BatchNormShape& s, Channels group,
                                const float* x, const float* scale,
                                const float* shift, const float* residual,
                                const float* mean, const float* variance,
                                float* y) {
  ForEachPlane(
      s, group,
      [&](int64_t c, int64_t, int64_t plane) __attribute__((always_inline)) {
        const float v = variance[c] < 0 ? 0.0f : variance[c];
        const float factor = InverseDeviation(v) * scale[c];
        // Apart, so that the loop has no conditions.
        if (residual != nullptr) {
          NormalizePlane(s.pixels, s.relu, x + plane, mean[c], factor, shift[c],
                         residual + plane, y + plane);
        } else {
          NormalizePlane(s.pixels, s.relu, x + plane, mean[c], factor, shift[c],
                         nullptr, y + plane);
        }
      });
}

// What backward needs of a group: sums of g and of g (x - mean), where g is the
// gradient behind max(., 0). Writes g to dresidual, unless that is null.
struct GradientSums {
  Lanes g[kMaxChannels] = {};
  Lanes g_x[kMaxChannels] = {};
};

TRIBUTARY_INLINE Lanes GradientAt(bool relu, const float* y, const float* dy,
                                  int64_t count) {
  const Lanes g = Read(dy, count);
  return relu ? WherePositive(Read(y, count), g) : g;
}

TRIBUTARY_INLINE void SumGradients(const BatchNormShape& s, Channels group,
                                   const float* x, const float* mean,
                                   const float* y, const float* dy,
                                   float* dresidual, GradientSums* sums) {
  ForEachPlane(
      s, group,
      [&](int64_t c, int64_t i, int64_t plane) __attribute__((always_inline)) {
        Lanes g_sum = {}, g_x_sum = {};
        const float m = mean[c];
        ForEachVector(
            s.pixels, [&](int64_t at,
                          int64_t count) __attribute__((always_inline)) {
              const int64_t e = plane + at;
              const Lanes g = GradientAt(s.relu, y + e, dy + e, count);
              g_sum = g_sum + g;
              g_x_sum = g_x_sum + g * (Read(x + e, count) - m);
              if (dresidual != nullptr) Write(dresidual + e, count, g);
            });
        sums->g[i] = sums->g[i] + g_sum;
        sums->g_x[i] = sums->g_x[i] + g_x_sum;
      });
}

// dx = scale inverse (g - mean(g) - (x - mean) inverse^2 mean(g (x - mean))).
TRIBUTARY_INLINE void InputGradients(const BatchNormShape& s, Channels group,
                                     const float* x, const float* scale,
                                     const float* mean, const float* variance,
                                     const float* y, const float* dy,
                                     const float* dscale, const float* dshift,
                                     float* dx) {
  const auto observations = static_cast<float>(s.batch * s.pixels);
  ForEachPlane(
      s, group,
      [&](int64_t c, int64_t, int64_t plane) __attribute__((always_inline)) {
        const float inverse = InverseDeviation(variance[c]), m = mean[c];
        const float factor = scale[c] * inverse;
        const float g_mean = dshift[c] / observations;
        const float slope = inverse * (dscale[c] / observations);
        ForEachVector(
            s.pixels, [&](int64_t at,
                          int64_t count) __attribute__((always_inline)) {
              const int64_t e = plane + at;
              const Lanes g = GradientAt(s.relu, y + e, dy + e, count);
              Write(dx + e, count,
                    (g - g_mean - (Read(x + e, count) - m) * slope) * factor);
            });
      });
}

}  // namespace

TRIBUTARY_MULTIVERSION
void BatchNormForward(const BatchNormShape& shape, const float* x,
                      const float* scale, const float* shift,
                      const float* residual, float* y, float* mean,
                      float* variance) {
  // A copy, which stores cannot change as far as the compiler knows.
  const BatchNormShape s = shape;
  ForEachGroup(
      s, [&](Channels group) __attribute__((always_inline)) {
        Means(s, group, x, mean);
        Variances(s, group, x, mean, variance);
        Normalize(s, group, x, scale, shift, residual, mean, variance, y);
      });
}

TRIBUTARY_MULTIVERSION
void BatchNormEvaluate(const BatchNormShape& shape, const float* x,
                       const float* scale, const float* shift,
                       const float* mean, const float* variance,
                       const float* residual, float* y) {
  const BatchNormShape s = shape;
  Normalize(s, {0, s.channels}, x, scale, shift, residual, mean, variance, y);
}

TRIBUTARY_MULTIVERSION
void BatchNormBackward(const BatchNormShape& shape, const float* x,
                       const float* scale, const float* mean,
                       const float* variance, const float* y, const float* dy,
                       float* dx, float* dscale, float* dshift,
                       float* dresidual) {
  const BatchNormShape s = shape;
  ForEachGroup(
      s, [&](Channels group) __attribute__((always_inline)) {
        GradientSums sums;
        SumGradients(s, group, x, mean, y, dy, dresidual, &sums);
        for (int64_t i = 0; i < group.count; ++i) {
          const int64_t c = group.begin + i;
          dshift[c] = Sum(sums.g[i]);
          dscale[c] = Sum(sums.g_x[i]) * InverseDeviation(variance[c]);
        }
        InputGradients(s, group, x, scale, mean, variance, y, dy, dscale,
                       dshift, dx);
      });
}

void BatchNormStatisticsGradient(int64_t channels, int64_t observations,
                                 int64_t sample_count, const float* mean,
                                 const float* variance,
                                 const float* running_mean,
                                 const float* running_variance, float* dmean,
                                 float* dvariance) {
  const auto factor = static_cast<float>(sample_count);
  const float unbiased =
      static_cast<float>(observations) /
      static_cast<float>(std::max<int64_t>(observations - 1, 1));
  for (int64_t c = 0; c < channels; ++c) {
    dmean[c] = factor * (running_mean[c] - mean[c]);
    dvariance[c] = factor * (running_variance[c] - unbiased * variance[c]);
  }
}

}  // namespace tributary::cpu
