#include <cmath>

#include "common/numerics/simd.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"
#include "worker/device/cpu/kernels/reductions.h"
#include "worker/device/cpu/kernels/vector_math.h"

namespace tributary::cpu {
namespace {

// Returns the sum of exp(x[i] - maximum) without storing the terms.
TRIBUTARY_INLINE float ExpSum(int64_t count, float maximum, const float* x) {
  constexpr int64_t kRun = 256;
  float run[kRun];
  float sum = 0;
  for (int64_t i = 0; i < count; i += kRun) {
    sum += RowExp(count - i < kRun ? count - i : kRun, maximum, x + i, run);
  }
  return sum;
}

// Returns the mean of x[0, count) in float64.
TRIBUTARY_INLINE double RowMean(int64_t count, const float* x) {
  double lanes[simd::kLanes] = {};
  int64_t i = 0;
  for (; i + simd::kLanes <= count; i += simd::kLanes) {
    for (int j = 0; j < simd::kLanes; ++j) lanes[j] += x[i + j];
  }
  for (; i < count; ++i) lanes[0] += x[i];
  double sum = 0;
  for (int j = 0; j < simd::kLanes; ++j) sum += lanes[j];
  return sum / static_cast<double>(count);
}

TRIBUTARY_INLINE bool IsFirstMaximum(const float* row, int32_t label,
                                     float maximum) {
  if (row[label] != maximum) return false;
  for (int32_t c = 0; c < label; ++c) {
    if (row[c] == maximum) return false;
  }
  return true;
}

TRIBUTARY_MULTIVERSION
Loss SoftmaxCrossEntropy(int64_t rows, int64_t classes, const float* logits,
                         const int32_t* labels, float* dlogits, float smoothing,
                         int64_t padding) {
  Loss loss;
  const int64_t targets = classes - padding;
  const float at_each = smoothing / static_cast<float>(targets);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = logits + r * classes;
    const int32_t label = labels[r];
    if (label < 0) {
      if (dlogits != nullptr) {
        for (int64_t c = 0; c < classes; ++c) dlogits[r * classes + c] = 0;
      }
      continue;
    }
    ++loss.counted;
    const float maximum = RowMaximum(classes, row);
    const float at_label = row[label];
    loss.correct += IsFirstMaximum(row, label, maximum) ? 1 : 0;
    // The mean of the logits under the target's distribution.
    double target = at_label;
    if (smoothing > 0) {
      target += smoothing * (RowMean(targets, row) - target);
    }
    float sum;
    if (dlogits == nullptr) {
      sum = ExpSum(classes, maximum, row);
    } else {
      float* gradient = dlogits + r * classes;
      sum = RowExp(classes, maximum, row, gradient);
      const float inverse = 1.0f / sum;
      for (int64_t c = 0; c < classes; ++c) gradient[c] *= inverse;
      if (smoothing > 0) {
        for (int64_t c = 0; c < targets; ++c) gradient[c] -= at_each;
      }
      gradient[label] -= 1.0f - smoothing;
    }
    loss.sum += std::log(static_cast<double>(sum)) - (target - maximum);
  }
  return loss;
}

TRIBUTARY_MULTIVERSION
Loss MeanSquaredError(int64_t rows, int64_t width, const float* x,
                      const float* target, float* dx) {
  Loss loss;
  loss.counted = rows;
  const float factor = 2.0f / static_cast<float>(width);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * width;
    const float* goal = target + r * width;
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) {
      const double difference = static_cast<double>(row[c]) - goal[c];
      sum += difference * difference;
    }
    loss.sum += sum / static_cast<double>(width);
    if (dx == nullptr) continue;
    float* gradient = dx + r * width;
    for (int64_t c = 0; c < width; ++c) {
      gradient[c] = factor * (row[c] - goal[c]);
    }
  }
  return loss;
}

Loss BinaryCrossEntropy(int64_t rows, const float* logits,
                        const int32_t* labels, float* dlogits) {
  Loss loss;
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[r] < 0) {
      if (dlogits != nullptr) dlogits[r] = 0;
      continue;
    }
    ++loss.counted;
    const float x = logits[r];
    const auto label = static_cast<float>(labels[r]);
    loss.correct += (x > 0) == (labels[r] > 0) ? 1 : 0;
    loss.sum += (x < 0 ? 0.0 : static_cast<double>(x)) -
                static_cast<double>(x) * label +
                std::log1p(std::exp(-std::abs(static_cast<double>(x))));
    if (dlogits != nullptr) dlogits[r] = Logistic(x) - label;
  }
  return loss;
}

// T is what Real stands for.
template <typename T>
class CpuLossOps final : public LossOps {
 public:
  explicit CpuLossOps(Context* context) : context_(context) {}

  void BeginSoftmaxCrossEntropy(
      const SoftmaxCrossEntropyArguments& args) override {
    SumOverRows(args.rows, args.classes, args.logits, args.dlogits,
                [&](int64_t first, int64_t n, const float* x, float* dx) {
                  return SoftmaxCrossEntropy(n, args.classes, x,
                                             args.labels + first, dx,
                                             args.smoothing, args.padding);
                });
  }
  void BeginMeanSquaredError(const MeanSquaredErrorArguments& args) override {
    SumOverRows(args.rows, args.width, args.x, args.dx,
                [&](int64_t first, int64_t n, const float* x, float* dx) {
                  return MeanSquaredError(n, args.width, x,
                                          args.target + first * args.width, dx);
                });
  }
  void BeginBinaryCrossEntropy(
      const BinaryCrossEntropyArguments& args) override {
    SumOverRows(args.rows, /*width=*/1, args.logits, args.dlogits,
                [&](int64_t first, int64_t n, const float* x, float* dx) {
                  return BinaryCrossEntropy(n, x, args.labels + first, dx);
                });
  }
  absl::StatusOr<Loss> Await() override { return loss_; }

 private:
  // Sets loss_ to the loss of all rows. In bfloat16, writes each block's
  // gradient over its input.
  template <typename Run>
  void SumOverRows(int64_t rows, int64_t width, const Real* x, Real* dx,
                   const Run& run) {
    loss_ = {};
    InBlocks<T>(rows, width, kSmallBlock, [&](int64_t first, int64_t n) {
      const int64_t size = n * width, begin = first * width;
      const float* const values = Read<T>(context_, 0, size, x, begin);
      float* const gradient = Room<T>(context_, 0, size, dx, begin);
      const Loss part = run(first, n, values, gradient);
      loss_.sum += part.sum;
      loss_.correct += part.correct;
      loss_.counted += part.counted;
      Write<T>(size, gradient, dx, begin);
    });
  }

  Context* const context_;
  Loss loss_;
};

}  // namespace

std::unique_ptr<LossOps> CreateLossOps(Precision precision, Context* context) {
  return CreateOps<LossOps, CpuLossOps>(precision, context);
}

}  // namespace tributary::cpu
