#include <cstring>

#include "common/numerics/simd.h"
#include "worker/device/cpu/bfloat16_blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/kernels/vector_math.h"

namespace tributary::cpu {
namespace {

// In all kernels the output may be an input.

TRIBUTARY_MULTIVERSION
void Relu(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

TRIBUTARY_MULTIVERSION
void ReluGradient(int64_t count, const float* y, const float* dy, float* dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

constexpr float kSqrt2OverPi = 0.7978845608f;
constexpr float kGeluCubic = 0.044715f;

// 0.5 (1 + tanh(u)) equals the logistic function of 2 u, which keeps its
// relative precision where tanh(u) is near -1.
//
// Returns the logistic function of 2 u, u = sqrt(2 / pi) (x + 0.044715 x^3).
TRIBUTARY_INLINE float GeluGate(float x) {
  const float u = kSqrt2OverPi * (x + kGeluCubic * x * x * x);
  return 1.0f / (1.0f + Exp(-2.0f * u));
}

TRIBUTARY_MULTIVERSION
void Gelu(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * GeluGate(x[i]);
}

TRIBUTARY_MULTIVERSION
void GeluGradient(int64_t count, const float* x, const float* dy, float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const float v = x[i];
    const float gate = GeluGate(v);
    const float slope = kSqrt2OverPi * (1.0f + 3.0f * kGeluCubic * v * v);
    dx[i] = dy[i] * (gate + v * (2.0f * slope) * (gate * (1.0f - gate)));
  }
}

TRIBUTARY_MULTIVERSION
void ExactGelu(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * NormalAt(x[i]).distribution;
}

TRIBUTARY_MULTIVERSION
void ExactGeluGradient(int64_t count, const float* x, const float* dy,
                       float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const NormalValues normal = NormalAt(x[i]);
    dx[i] = dy[i] * (normal.distribution + x[i] * normal.density);
  }
}

TRIBUTARY_MULTIVERSION
void Tanh(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = HyperbolicTangent(x[i]);
}

TRIBUTARY_MULTIVERSION
void TanhGradient(int64_t count, const float* y, const float* dy, float* dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

TRIBUTARY_MULTIVERSION
void Sigmoid(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = Logistic(x[i]);
}

TRIBUTARY_MULTIVERSION
void SigmoidGradient(int64_t count, const float* y, const float* dy,
                     float* dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
}

TRIBUTARY_MULTIVERSION
void Silu(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * Logistic(x[i]);
}

TRIBUTARY_MULTIVERSION
void SiluGradient(int64_t count, const float* x, const float* dy, float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const float gate = Logistic(x[i]);
    // 1 - gate, which would lose digits for large x.
    const float rest = Logistic(-x[i]);
    dx[i] = dy[i] * (gate * (1.0f + x[i] * rest));
  }
}

TRIBUTARY_MULTIVERSION
void LeakyRelu(int64_t count, float alpha, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = x[i] > 0.0f ? x[i] : alpha * x[i];
  }
}

TRIBUTARY_MULTIVERSION
void LeakyReluGradient(int64_t count, float alpha, const float* x,
                       const float* dy, float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    dx[i] = x[i] > 0.0f ? dy[i] : alpha * dy[i];
  }
}

TRIBUTARY_MULTIVERSION
void Elu(int64_t count, float alpha, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) {
    const float negative = alpha * ExpMinusOne(x[i]);
    y[i] = x[i] > 0.0f ? x[i] : negative;
  }
}

TRIBUTARY_MULTIVERSION
void EluGradient(int64_t count, float alpha, const float* x, const float* dy,
                 float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const float negative = dy[i] * (alpha * Exp(x[i]));
    dx[i] = x[i] > 0.0f ? dy[i] : negative;
  }
}

TRIBUTARY_MULTIVERSION
void Softplus(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = LogOnePlusExp(x[i]);
}

TRIBUTARY_MULTIVERSION
void SoftplusGradient(int64_t count, const float* x, const float* dy,
                      float* dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * Logistic(x[i]);
}

class Float32ElementwiseOps final : public ElementwiseOps {
 public:
  explicit Float32ElementwiseOps(Context* context) : context_(context) {}

  void Round(const RoundArguments& args) override {
    std::memcpy(args.to, args.from, args.count * sizeof(float));
  }
  void Copy(const MapArguments& args) override {
    std::memcpy(args.y, args.x, args.count * sizeof(float));
  }
  void Add(const MapArguments& args) override {
    cpu::Add(args.count, AsFloats(args.x), AsFloats(args.y));
  }
  void ReluForward(const MapArguments& args) override {
    Relu(args.count, AsFloats(args.x), AsFloats(args.y));
  }
  void ReluBackward(const GradientArguments& args) override {
    ReluGradient(args.count, AsFloats(args.at), AsFloats(args.dy),
                 AsFloats(args.dx));
  }
  void GeluForward(const MapArguments& args) override {
    Gelu(args.count, AsFloats(args.x), AsFloats(args.y));
  }
  void GeluBackward(const GradientArguments& args) override {
    GeluGradient(args.count, AsFloats(args.at), AsFloats(args.dy),
                 AsFloats(args.dx));
  }
  void ExactGeluForward(const MapArguments& args) override {
    ExactGelu(args.count, AsFloats(args.x), AsFloats(args.y));
  }
  void ExactGeluBackward(const GradientArguments& args) override {
    ExactGeluGradient(args.count, AsFloats(args.at), AsFloats(args.dy),
                      AsFloats(args.dx));
  }
  void TanhForward(const MapArguments& args) override {
    Tanh(args.count, AsFloats(args.x), AsFloats(args.y));
  }
  void TanhBackward(const GradientArguments& args) override {
    TanhGradient(args.count, AsFloats(args.at), AsFloats(args.dy),
                 AsFloats(args.dx));
  }
  void SigmoidForward(const MapArguments& args) override {
    Sigmoid(args.count, AsFloats(args.x), AsFloats(args.y));
  }
  void SigmoidBackward(const GradientArguments& args) override {
    SigmoidGradient(args.count, AsFloats(args.at), AsFloats(args.dy),
                    AsFloats(args.dx));
  }
  void SiluForward(const MapArguments& args) override {
    Silu(args.count, AsFloats(args.x), AsFloats(args.y));
  }
  void SiluBackward(const GradientArguments& args) override {
    SiluGradient(args.count, AsFloats(args.at), AsFloats(args.dy),
                 AsFloats(args.dx));
  }
  void LeakyReluForward(const MapArguments& args) override {
    LeakyRelu(args.count, args.alpha, AsFloats(args.x), AsFloats(args.y));
  }
  void LeakyReluBackward(const GradientArguments& args) override {
    LeakyReluGradient(args.count, args.alpha, AsFloats(args.at),
                      AsFloats(args.dy), AsFloats(args.dx));
  }
  void EluForward(const MapArguments& args) override {
    Elu(args.count, args.alpha, AsFloats(args.x), AsFloats(args.y));
  }
  void EluBackward(const GradientArguments& args) override {
    EluGradient(args.count, args.alpha, AsFloats(args.at), AsFloats(args.dy),
                AsFloats(args.dx));
  }
  void SoftplusForward(const MapArguments& args) override {
    Softplus(args.count, AsFloats(args.x), AsFloats(args.y));
  }
  void SoftplusBackward(const GradientArguments& args) override {
    SoftplusGradient(args.count, AsFloats(args.at), AsFloats(args.dy),
                     AsFloats(args.dx));
  }
  void Dropout(const DropoutArguments& args) override {
    cpu::Dropout(args.count, context_->random_base.Of(args.stream), /*first=*/0,
                 args.rate, AsFloats(args.x), AsFloats(args.y));
  }

 private:
  Context* const context_;
};

class Bfloat16ElementwiseOps final : public ElementwiseOps {
 public:
  explicit Bfloat16ElementwiseOps(Context* context) : context_(context) {}

  void Round(const RoundArguments& args) override {
    Narrow(args.count, args.from, AsHalves(args.to));
  }
  void Copy(const MapArguments& args) override {
    std::memcpy(args.y, args.x, args.count * sizeof(Bfloat16));
  }
  void Add(const MapArguments& args) override {
    InBlocks(args.count, 1, kBlock, [&](int64_t first, int64_t n) {
      float* sum = Read(context_, 1, n, AsHalves(args.y) + first);
      cpu::Add(n, Read(context_, 0, n, AsHalves(args.x) + first), sum);
      Narrow(n, sum, AsHalves(args.y) + first);
    });
  }
  void ReluForward(const MapArguments& args) override {
    Map(args.count, args.x, args.y,
        [](int64_t, int64_t n, float* values) { Relu(n, values, values); });
  }
  void ReluBackward(const GradientArguments& args) override {
    MapGradient(args, &ReluGradient);
  }
  void GeluForward(const MapArguments& args) override {
    Map(args.count, args.x, args.y,
        [](int64_t, int64_t n, float* values) { Gelu(n, values, values); });
  }
  void GeluBackward(const GradientArguments& args) override {
    MapGradient(args, &GeluGradient);
  }
  void ExactGeluForward(const MapArguments& args) override {
    Map(args.count, args.x, args.y, [](int64_t, int64_t n, float* values) {
      ExactGelu(n, values, values);
    });
  }
  void ExactGeluBackward(const GradientArguments& args) override {
    MapGradient(args, &ExactGeluGradient);
  }
  void TanhForward(const MapArguments& args) override {
    Map(args.count, args.x, args.y,
        [](int64_t, int64_t n, float* values) { Tanh(n, values, values); });
  }
  void TanhBackward(const GradientArguments& args) override {
    MapGradient(args, &TanhGradient);
  }
  void SigmoidForward(const MapArguments& args) override {
    Map(args.count, args.x, args.y,
        [](int64_t, int64_t n, float* values) { Sigmoid(n, values, values); });
  }
  void SigmoidBackward(const GradientArguments& args) override {
    MapGradient(args, &SigmoidGradient);
  }
  void SiluForward(const MapArguments& args) override {
    Map(args.count, args.x, args.y,
        [](int64_t, int64_t n, float* values) { Silu(n, values, values); });
  }
  void SiluBackward(const GradientArguments& args) override {
    MapGradient(args, &SiluGradient);
  }
  void LeakyReluForward(const MapArguments& args) override {
    Map(args.count, args.x, args.y, [&](int64_t, int64_t n, float* values) {
      LeakyRelu(n, args.alpha, values, values);
    });
  }
  void LeakyReluBackward(const GradientArguments& args) override {
    MapGradient(args,
                [&](int64_t n, const float* x, const float* dy, float* dx) {
                  LeakyReluGradient(n, args.alpha, x, dy, dx);
                });
  }
  void EluForward(const MapArguments& args) override {
    Map(args.count, args.x, args.y, [&](int64_t, int64_t n, float* values) {
      Elu(n, args.alpha, values, values);
    });
  }
  void EluBackward(const GradientArguments& args) override {
    MapGradient(args,
                [&](int64_t n, const float* x, const float* dy, float* dx) {
                  EluGradient(n, args.alpha, x, dy, dx);
                });
  }
  void SoftplusForward(const MapArguments& args) override {
    Map(args.count, args.x, args.y,
        [](int64_t, int64_t n, float* values) { Softplus(n, values, values); });
  }
  void SoftplusBackward(const GradientArguments& args) override {
    MapGradient(args, &SoftplusGradient);
  }
  void Dropout(const DropoutArguments& args) override {
    const RandomStream numbers = context_->random_base.Of(args.stream);
    Map(args.count, args.x, args.y,
        [&](int64_t first, int64_t n, float* values) {
          cpu::Dropout(n, numbers, first, args.rate, values, values);
        });
  }

 private:
  // Sets y to the result of run(first, number, values) on x in place, in slot
  // 0.
  template <typename Run>
  void Map(int64_t count, const Real* x, Real* y, const Run& run) {
    InBlocks(count, 1, kBlock, [&](int64_t first, int64_t n) {
      float* values = Read(context_, 0, n, AsHalves(x) + first);
      run(first, n, values);
      Narrow(n, values, AsHalves(y) + first);
    });
  }
  // Calls gradient(number, at, dy, dx).
  template <typename Gradient>
  void MapGradient(const GradientArguments& args, const Gradient& gradient) {
    Map(args.count, args.dy, args.dx,
        [&](int64_t first, int64_t n, float* values) {
          gradient(n, Read(context_, 1, n, AsHalves(args.at) + first), values,
                   values);
        });
  }

  Context* const context_;
};

}  // namespace

std::unique_ptr<ElementwiseOps> CreateElementwiseOps(Precision precision,
                                                     Context* context) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Float32ElementwiseOps>(context);
  }
  return std::make_unique<Bfloat16ElementwiseOps>(context);
}

}  // namespace tributary::cpu
