#include "common/optimizer/optimizer.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/numerics/flush_denormals.h"
#include "common/numerics/simd.h"
#include "common/optimizer/optimizer_kernels.h"

// Not inlined, so that none of their arithmetic leaves the scope of
// FlushDenormals. Structures go by reference: a copy of one that has just been
// written waits until all stores before it have reached memory.
#define TRIBUTARY_KERNEL TRIBUTARY_MULTIVERSION __attribute__((noinline))

namespace tributary {
namespace {

using optimizer_kernels::OneSum;
using optimizer_kernels::TwoSums;

TRIBUTARY_KERNEL void PlainSgd(const OneSum& g, const SgdFactors& f,
                               const float* w, float* out, int64_t count) {
  optimizer_kernels::PlainSgd(g, f, w, out, count);
}

TRIBUTARY_KERNEL void PlainSgd2(const TwoSums& g, const SgdFactors& f,
                                const float* w, float* out, int64_t count) {
  optimizer_kernels::PlainSgd(g, f, w, out, count);
}

TRIBUTARY_KERNEL void MomentumSgd(const OneSum& g, const SgdFactors& f,
                                  const float* w, float* out, float* v,
                                  int64_t count) {
  optimizer_kernels::MomentumSgd<false>(g, f, w, out, v, count);
}

TRIBUTARY_KERNEL void MomentumSgd2(const TwoSums& g, const SgdFactors& f,
                                   const float* w, float* out, float* v,
                                   int64_t count) {
  optimizer_kernels::MomentumSgd<false>(g, f, w, out, v, count);
}

TRIBUTARY_KERNEL void NesterovSgd(const OneSum& g, const SgdFactors& f,
                                  const float* w, float* out, float* v,
                                  int64_t count) {
  optimizer_kernels::MomentumSgd<true>(g, f, w, out, v, count);
}

TRIBUTARY_KERNEL void NesterovSgd2(const TwoSums& g, const SgdFactors& f,
                                   const float* w, float* out, float* v,
                                   int64_t count) {
  optimizer_kernels::MomentumSgd<true>(g, f, w, out, v, count);
}

TRIBUTARY_KERNEL void Statistics(const OneSum& g, const float* w, float* out,
                                 int64_t count) {
  optimizer_kernels::Statistics(g, w, out, count);
}

TRIBUTARY_KERNEL void Statistics2(const TwoSums& g, const float* w, float* out,
                                  int64_t count) {
  optimizer_kernels::Statistics(g, w, out, count);
}

TRIBUTARY_KERNEL void AdamOne(const OneSum& g, const AdamFactors& f,
                              const float* w, float* out, float* m, float* v,
                              int64_t count) {
  optimizer_kernels::Adam(g, f, w, out, m, v, count);
}

TRIBUTARY_KERNEL void AdamTwo(const TwoSums& g, const AdamFactors& f,
                              const float* w, float* out, float* m, float* v,
                              int64_t count) {
  optimizer_kernels::Adam(g, f, w, out, m, v, count);
}

// The gradient of a segment, from its first element.
OneSum One(const UpdateArguments& a, int64_t begin) {
  return {a.gradient_sum + begin, a.gradient_scale};
}

TwoSums Two(const UpdateArguments& a, int64_t begin) {
  return {a.gradient_sum + begin, a.other_gradient_sum + begin,
          a.gradient_scale};
}

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdSpec& spec)
      : momentum_(static_cast<float>(spec.momentum())),
        weight_decay_(static_cast<float>(spec.weight_decay())),
        nesterov_(spec.nesterov()) {}

  std::vector<std::string> slot_names() const override {
    if (momentum_ == 0) return {};
    return {"momentum_buffer"};
  }

  void UpdateByGradient(const UpdateArguments& a) const override {
    for (const ChunkSegment& segment : a.segments) {
      if (segment.group != STATISTICS) UpdateSegment(a, segment);
    }
  }

  OptimizerFactors FactorsAt(int64_t /*step*/, double learning_rate,
                             bool decays) const override {
    OptimizerFactors factors;
    factors.rule = momentum_ == 0 ? OptimizerFactors::Rule::kPlainSgd
                   : nesterov_    ? OptimizerFactors::Rule::kNesterovSgd
                                  : OptimizerFactors::Rule::kMomentumSgd;
    factors.sgd = Factors(learning_rate, decays);
    return factors;
  }

 private:
  SgdFactors Factors(double learning_rate, bool decays) const {
    return {static_cast<float>(learning_rate), momentum_,
            decays ? weight_decay_ : 0};
  }

  void UpdateSegment(const UpdateArguments& a,
                     const ChunkSegment& segment) const {
    const SgdFactors factors = Factors(a.learning_rate, segment.group == DECAY);
    const int64_t begin = segment.begin, count = segment.end - segment.begin;
    const float* w = a.weights + begin;
    float* out = a.new_weights + begin;
    const bool two = a.other_gradient_sum != nullptr;
    if (momentum_ == 0) {
      two ? PlainSgd2(Two(a, begin), factors, w, out, count)
          : PlainSgd(One(a, begin), factors, w, out, count);
      return;
    }
    float* v = a.slots[0] + begin;
    if (nesterov_) {
      two ? NesterovSgd2(Two(a, begin), factors, w, out, v, count)
          : NesterovSgd(One(a, begin), factors, w, out, v, count);
    } else {
      two ? MomentumSgd2(Two(a, begin), factors, w, out, v, count)
          : MomentumSgd(One(a, begin), factors, w, out, v, count);
    }
  }

  const float momentum_;
  const float weight_decay_;
  const bool nesterov_;
};

// By squaring: the C library's pow may differ in its last bit between
// processors.
double Power(double base, int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

class Adam final : public Optimizer {
 public:
  Adam(const AdamSpec& spec, bool decoupled)
      : beta1_(spec.beta1()),
        beta2_(spec.beta2()),
        epsilon_(spec.epsilon()),
        weight_decay_(spec.weight_decay()),
        decoupled_(decoupled) {}

  std::vector<std::string> slot_names() const override {
    return {"exp_avg", "exp_avg_sq"};
  }

  void UpdateByGradient(const UpdateArguments& a) const override {
    const AdamFactors decayed = Factors(a.step, a.learning_rate, weight_decay_);
    const AdamFactors plain = Factors(a.step, a.learning_rate, 0);
    for (const ChunkSegment& segment : a.segments) {
      if (segment.group == STATISTICS) continue;
      const int64_t begin = segment.begin, count = segment.end - begin;
      const AdamFactors& f = segment.group == DECAY ? decayed : plain;
      const float* w = a.weights + begin;
      float* out = a.new_weights + begin;
      float* m = a.slots[0] + begin;
      float* v = a.slots[1] + begin;
      if (a.other_gradient_sum != nullptr) {
        AdamTwo(Two(a, begin), f, w, out, m, v, count);
      } else {
        AdamOne(One(a, begin), f, w, out, m, v, count);
      }
    }
  }

  OptimizerFactors FactorsAt(int64_t step, double learning_rate,
                             bool decays) const override {
    OptimizerFactors factors;
    factors.rule = OptimizerFactors::Rule::kAdam;
    factors.adam = Factors(step, learning_rate, decays ? weight_decay_ : 0);
    return factors;
  }

 private:
  AdamFactors Factors(int64_t step, double learning_rate,
                      double weight_decay) const {
    const double correction1 = 1 - Power(beta1_, step + 1);
    const double correction2 = 1 - Power(beta2_, step + 1);
    AdamFactors f;
    f.beta1 = static_cast<float>(beta1_);
    f.rest1 = static_cast<float>(1 - beta1_);
    f.beta2 = static_cast<float>(beta2_);
    f.rest2 = static_cast<float>(1 - beta2_);
    f.epsilon = static_cast<float>(epsilon_);
    f.keep =
        static_cast<float>(decoupled_ ? 1 - learning_rate * weight_decay : 1);
    f.weight_decay = static_cast<float>(decoupled_ ? 0 : weight_decay);
    f.step_size = static_cast<float>(learning_rate / correction1);
    f.root_scale = static_cast<float>(1 / std::sqrt(correction2));
    return f;
  }

  const double beta1_;
  const double beta2_;
  const double epsilon_;
  const double weight_decay_;
  const bool decoupled_;
};

void UpdateStatistics(const UpdateArguments& a, const ChunkSegment& segment) {
  const int64_t begin = segment.begin, count = segment.end - begin;
  const float* w = a.weights + begin;
  float* out = a.new_weights + begin;
  if (a.other_gradient_sum != nullptr) {
    Statistics2({a.gradient_sum + begin, a.other_gradient_sum + begin,
                 a.statistics_scale},
                w, out, count);
  } else {
    Statistics({a.gradient_sum + begin, a.statistics_scale}, w, out, count);
  }
}

}  // namespace

void Optimizer::Update(const UpdateArguments& arguments) const {
  const FlushDenormals flush;
  UpdateByGradient(arguments);
  for (const ChunkSegment& segment : arguments.segments) {
    if (segment.group == STATISTICS) UpdateStatistics(arguments, segment);
  }
}

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(
    const OptimizerSpec& spec) {
  std::unique_ptr<Optimizer> optimizer;
  switch (spec.rule_case()) {
    case OptimizerSpec::kSgd:
      optimizer = std::make_unique<Sgd>(spec.sgd());
      break;
    case OptimizerSpec::kAdam:
      optimizer = std::make_unique<Adam>(spec.adam(), /*decoupled=*/false);
      break;
    case OptimizerSpec::kAdamw:
      optimizer = std::make_unique<Adam>(spec.adamw(), /*decoupled=*/true);
      break;
    case OptimizerSpec::RULE_NOT_SET:
      return absl::InvalidArgumentError(
          "optimizer: is required: set sgd, adam or adamw");
  }
  return optimizer;
}

float GradientScale(int64_t sample_count, double clip_norm, double norm) {
  const double mean = 1 / static_cast<double>(sample_count);
  // Not true of a norm that is not a number: the scale is then none either,
  // so the error shows in the weights.
  if (clip_norm <= 0 || norm + 1e-6 <= clip_norm) {
    return static_cast<float>(mean);
  }
  return static_cast<float>(mean * (clip_norm / (norm + 1e-6)));
}

}  // namespace tributary
