// Each pass over a few channels is followed by the next pass while they are in
// the cache, so memory is read once.
#include <algorithm>
#include <cmath>

#include "common/numerics/simd.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"

namespace tributary::cpu {
namespace {

constexpr float kBatchNormEpsilon = 1e-5f;

constexpr int kHalf = 8;
typedef float Half __attribute__((vector_size(4 * kHalf)));
typedef float UnalignedHalf
    __attribute__((vector_size(4 * kHalf), aligned(4), may_alias));

// Sixteen floats in AVX2 registers. The compiler would keep simd::Lanes on the
// stack because AVX2 has no registers of that width.
struct Lanes {
  Half low, high;
};
constexpr int64_t kPairLanes = 2 * kHalf;

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

// Adds in the order of simd::Sum.
TRIBUTARY_INLINE float LaneSum(Lanes v) {
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

// Number of elements that a pass covers per image. The channels of an image are
// contiguous: runs of about 4 KiB suit hardware prefetching. Longer runs would
// not stay in the second-level cache between passes.
constexpr int64_t kRunElements = 1024;
constexpr int64_t kMaxChannels = 64;

struct Channels {
  int64_t begin, count;
};

// Calls pass(channels) for groups that together cover all channels.
template <typename Pass>
TRIBUTARY_INLINE void ForEachGroup(const BatchNormShape& s, const Pass& pass) {
  const int64_t size =
      std::clamp<int64_t>(kRunElements / s.pixels, 1, kMaxChannels);
  for (int64_t begin = 0; begin < s.channels; begin += size) {
    pass(Channels{begin, std::min(size, s.channels - begin)});
  }
}

// Calls visit(channel, index within the group, first element) for each plane of
// the group, image by image.
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

// Calls visit(begin, count) for the vectors of a plane. Only the last may have
// fewer than kPairLanes elements.
template <typename Visit>
TRIBUTARY_INLINE void ForEachVector(int64_t pixels, const Visit& visit) {
  int64_t i = 0;
  for (; i + kPairLanes <= pixels; i += kPairLanes) visit(i, kPairLanes);
  if (i < pixels) visit(i, pixels - i);
}

// Lanes from `count` on are 0.
TRIBUTARY_INLINE Lanes LoadLanes(const float* from, int64_t count) {
  if (count == kPairLanes) return {LoadHalf(from), LoadHalf(from + kHalf)};
  alignas(64) float lanes[kPairLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return {LoadHalf(lanes), LoadHalf(lanes + kHalf)};
}

TRIBUTARY_INLINE void StoreLanes(float* to, int64_t count, Lanes value) {
  if (count == kPairLanes) {
    StoreHalf(to, value.low);
    StoreHalf(to + kHalf, value.high);
    return;
  }
  alignas(64) float lanes[kPairLanes];
  StoreHalf(lanes, value.low);
  StoreHalf(lanes + kHalf, value.high);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// Returns `value` in the first `count` lanes and 0 in the others.
TRIBUTARY_INLINE Lanes Spread(float value, int64_t count) {
  if (count == kPairLanes) return Lanes{} + value;
  alignas(64) float lanes[kPairLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = value;
  return {LoadHalf(lanes), LoadHalf(lanes + kHalf)};
}

// NaN stays NaN.
TRIBUTARY_INLINE Lanes Relu(Lanes v) {
  const Half zero = {};
  return {v.low < zero ? zero : v.low, v.high < zero ? zero : v.high};
}

// Returns g where y > 0, else 0.
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
                            sum = sum + LoadLanes(x + plane + at, count);
                          });
        sums[i] = sums[i] + sum;
      });
  const auto count = static_cast<float>(s.batch * s.pixels);
  for (int64_t i = 0; i < group.count; ++i) {
    mean[group.begin + i] = LaneSum(sums[i]) / count;
  }
}

// Uses a second pass: the mean square minus the squared mean would lose all
// digits where the mean is large.
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
                            const Lanes d = LoadLanes(x + plane + at, count) -
                                            Spread(mean[c], count);
                            sum = sum + d * d;
                          });
        sums[i] = sums[i] + sum;
      });
  const auto count = static_cast<float>(s.batch * s.pixels);
  for (int64_t i = 0; i < group.count; ++i) {
    variance[group.begin + i] = LaneSum(sums[i]) / count;
  }
}

// Writes one plane of y. residual may be null.
TRIBUTARY_INLINE void NormalizePlane(int64_t pixels, bool relu, const float* x,
                                     float mean, float factor, float shift,
                                     const float* residual, float* y) {
  ForEachVector(
      pixels, [&](int64_t at, int64_t count) __attribute__((always_inline)) {
        Lanes v = (LoadLanes(x + at, count) - mean) * factor + shift;
        if (residual != nullptr) {
          v = v + LoadLanes(residual + at, count);
        }
        StoreLanes(y + at, count, relu ? Relu(v) : v);
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
        // Separate loops, so that neither has conditions.
        if (residual != nullptr) {
          NormalizePlane(s.pixels, s.relu, x + plane, mean[c], factor, shift[c],
                         residual + plane, y + plane);
        } else {
          NormalizePlane(s.pixels, s.relu, x + plane, mean[c], factor, shift[c],
                         nullptr, y + plane);
        }
      });
}

// Sums that backward needs for each channel of a group: those of g and of g (x
// - mean), where g is the gradient before max(., 0). SumGradients also writes g
// to dresidual unless it is null.
struct GradientSums {
  Lanes g[kMaxChannels] = {};
  Lanes g_x[kMaxChannels] = {};
};

TRIBUTARY_INLINE Lanes GradientAt(bool relu, const float* y, const float* dy,
                                  int64_t count) {
  const Lanes g = LoadLanes(dy, count);
  return relu ? WherePositive(LoadLanes(y, count), g) : g;
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
              g_x_sum = g_x_sum + g * (LoadLanes(x + e, count) - m);
              if (dresidual != nullptr) StoreLanes(dresidual + e, count, g);
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
              StoreLanes(dx + e, count,
                         (g - g_mean - (LoadLanes(x + e, count) - m) * slope) *
                             factor);
            });
      });
}

TRIBUTARY_MULTIVERSION
void BatchNormForward(const BatchNormShape& shape, const float* x,
                      const float* scale, const float* shift,
                      const float* residual, float* y, float* mean,
                      float* variance) {
  // A local copy lets the compiler assume that stores do not change it.
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
          dshift[c] = LaneSum(sums.g[i]);
          dscale[c] = LaneSum(sums.g_x[i]) * InverseDeviation(variance[c]);
        }
        if (dx == nullptr) return;
        InputGradients(s, group, x, scale, mean, variance, y, dy, dscale,
                       dshift, dx);
      });
}

// T is what Real stands for. In bfloat16, processes groups of channels.
// Statistics are float32 in both formats.
template <typename T>
class CpuBatchNormOps final : public BatchNormOps {
 public:
  explicit CpuBatchNormOps(Context* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    const BatchNormShape& shape = args.shape;
    ForChannels(shape, [&](const BatchNormShape& s, int64_t c) {
      float* const out = Room<T>(context_, 2, Size(s), args.y);
      BatchNormForward(s, Gather(0, shape, s, c, args.x), args.scale + c,
                       args.shift + c, Gather(1, shape, s, c, args.residual),
                       out, args.mean + c, args.variance + c);
      Scatter(shape, s, c, out, args.y);
    });
  }
  void Evaluate(const EvaluateArguments& args) override {
    const BatchNormShape& shape = args.shape;
    ForChannels(shape, [&](const BatchNormShape& s, int64_t c) {
      float* const out = Room<T>(context_, 2, Size(s), args.y);
      BatchNormEvaluate(s, Gather(0, shape, s, c, args.x), args.scale + c,
                        args.shift + c, args.mean + c, args.variance + c,
                        Gather(1, shape, s, c, args.residual), out);
      Scatter(shape, s, c, out, args.y);
    });
  }
  void Backward(const BackwardArguments& args) override {
    const BatchNormShape& shape = args.shape;
    ForChannels(shape, [&](const BatchNormShape& s, int64_t c) {
      float* const out = Room<T>(context_, 3, Size(s), args.dx);
      float* const residual = Room<T>(context_, 4, Size(s), args.dresidual);
      BatchNormBackward(s, Gather(0, shape, s, c, args.x), args.scale + c,
                        args.mean + c, args.variance + c,
                        Gather(1, shape, s, c, shape.relu ? args.y : nullptr),
                        Gather(2, shape, s, c, args.dy), out, args.dscale + c,
                        args.dshift + c, residual);
      Scatter(shape, s, c, out, args.dx);
      Scatter(shape, s, c, residual, args.dresidual);
    });
  }
  void StatisticsGradient(const StatisticsGradientArguments& args) override {
    const auto factor = static_cast<float>(args.sample_count);
    const float unbiased =
        static_cast<float>(args.observations) /
        static_cast<float>(std::max<int64_t>(args.observations - 1, 1));
    for (int64_t c = 0; c < args.channels; ++c) {
      args.dmean[c] = factor * (args.running_mean[c] - args.mean[c]);
      args.dvariance[c] =
          factor * (args.running_variance[c] - unbiased * args.variance[c]);
    }
  }

 private:
  // Calls run(shape of a group of channels, first channel).
  template <typename Run>
  static void ForChannels(const BatchNormShape& shape, const Run& run) {
    InBlocks<T>(shape.channels, shape.batch * shape.pixels, kLargeBlock,
                [&](int64_t first, int64_t n) {
                  BatchNormShape group = shape;
                  group.channels = n;
                  run(group, first);
                });
  }
  static int64_t Size(const BatchNormShape& s) {
    return s.batch * s.channels * s.pixels;
  }
  // Returns the channels of `group`, starting at channel `first`, of all
  // images. Null yields null.
  const float* Gather(int slot, const BatchNormShape& shape,
                      const BatchNormShape& group, int64_t first,
                      const Real* x) {
    if constexpr (kIsFloat<T>) return As<T>(x);
    if (x == nullptr) return nullptr;
    float* const to = context_->slots[slot].Floats(Size(group));
    const int64_t run = group.channels * group.pixels;
    for (int64_t n = 0; n < shape.batch; ++n) {
      Widen(run, As<Bfloat16>(x) + (n * shape.channels + first) * shape.pixels,
            to + n * run);
    }
    return to;
  }
  // Does nothing if `y` is null.
  static void Scatter(const BatchNormShape& shape, const BatchNormShape& group,
                      int64_t first, const float* from, Real* y) {
    const int64_t run = group.channels * group.pixels;
    for (int64_t n = 0; n < shape.batch; ++n) {
      Write<T>(run, from + n * run, y,
               (n * shape.channels + first) * shape.pixels);
    }
  }

  Context* const context_;
};

}  // namespace

std::unique_ptr<BatchNormOps> CreateBatchNormOps(Precision precision,
                                                 Context* context) {
  return CreateOps<BatchNormOps, CpuBatchNormOps>(precision, context);
}

}  // namespace tributary::cpu
