#include <cstring>

#include "common/numerics/simd.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"
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

// T is what Real stands for.
template <typename T>
class CpuElementwiseOps final : public ElementwiseOps {
 public:
  explicit CpuElementwiseOps(Context* context) : context_(context) {}

  void Round(const RoundArguments& args) override {
    if constexpr (kIsFloat<T>) {
      std::memcpy(args.to, args.from, args.count * sizeof(float));
    } else {
      Narrow(args.count, args.from, As<T>(args.to));
    }
  }
  void Copy(const MapArguments& args) override {
    std::memcpy(args.y, args.x, args.count * sizeof(T));
  }
  void Add(const MapArguments& args) override {
    InBlocks<T>(args.count, 1, kSmallBlock, [&](int64_t first, int64_t n) {
      float* const sum = Read<T>(context_, 1, n, args.y, first);
      cpu::Add(n, Read<T>(context_, 0, n, args.x, first), sum);
      Write<T>(n, sum, args.y, first);
    });
  }
  void ReluForward(const MapArguments& args) override { Map(args, &Relu); }
  void ReluBackward(const GradientArguments& args) override {
    MapGradient(args, &ReluGradient);
  }
  void GeluForward(const MapArguments& args) override { Map(args, &Gelu); }
  void GeluBackward(const GradientArguments& args) override {
    MapGradient(args, &GeluGradient);
  }
  void ExactGeluForward(const MapArguments& args) override {
    Map(args, &ExactGelu);
  }
  void ExactGeluBackward(const GradientArguments& args) override {
    MapGradient(args, &ExactGeluGradient);
  }
  void TanhForward(const MapArguments& args) override { Map(args, &Tanh); }
  void TanhBackward(const GradientArguments& args) override {
    MapGradient(args, &TanhGradient);
  }
  void SigmoidForward(const MapArguments& args) override {
    Map(args, &Sigmoid);
  }
  void SigmoidBackward(const GradientArguments& args) override {
    MapGradient(args, &SigmoidGradient);
  }
  void SiluForward(const MapArguments& args) override { Map(args, &Silu); }
  void SiluBackward(const GradientArguments& args) override {
    MapGradient(args, &SiluGradient);
  }
  void LeakyReluForward(const MapArguments& args) override {
    Map(args, [&](int64_t n, const float* x, float* y) {
      LeakyRelu(n, args.alpha, x, y);
    });
  }
  void LeakyReluBackward(const GradientArguments& args) override {
    MapGradient(args,
                [&](int64_t n, const float* x, const float* dy, float* dx) {
                  LeakyReluGradient(n, args.alpha, x, dy, dx);
                });
  }
  void EluForward(const MapArguments& args) override {
    Map(args,
        [&](int64_t n, const float* x, float* y) { Elu(n, args.alpha, x, y); });
  }
  void EluBackward(const GradientArguments& args) override {
    MapGradient(args,
                [&](int64_t n, const float* x, const float* dy, float* dx) {
                  EluGradient(n, args.alpha, x, dy, dx);
                });
  }
  void SoftplusForward(const MapArguments& args) override {
    Map(args, &Softplus);
  }
  void SoftplusBackward(const GradientArguments& args) override {
    MapGradient(args, &SoftplusGradient);
  }
  void Dropout(const DropoutArguments& args) override {
    const RandomStream numbers = context_->random_base.Of(args.stream);
    MapBlocks(args.count, args.x, args.y,
              [&](int64_t first, int64_t n, const float* x, float* y) {
                cpu::Dropout(n, numbers, first, args.rate, x, y);
              });
  }

 private:
  // Calls run(first, number, x, y) for each block. `x` may be `y`.
  template <typename Run>
  void MapBlocks(int64_t count, const Real* x, Real* y, const Run& run) {
    InBlocks<T>(count, 1, kSmallBlock, [&](int64_t first, int64_t n) {
      const float* const in = Read<T>(context_, 0, n, x, first);
      float* const out = Room<T>(context_, 0, n, y, first);
      run(first, n, in, out);
      Write<T>(n, out, y, first);
    });
  }
  // Calls function(number, x, y).
  template <typename Function>
  void Map(const MapArguments& args, const Function& function) {
    MapBlocks(args.count, args.x, args.y,
              [&](int64_t, int64_t n, const float* x, float* y) {
                function(n, x, y);
              });
  }
  // Calls gradient(number, at, dy, dx).
  template <typename Gradient>
  void MapGradient(const GradientArguments& args, const Gradient& gradient) {
    MapBlocks(args.count, args.dy, args.dx,
              [&](int64_t first, int64_t n, const float* dy, float* dx) {
                gradient(n, Read<T>(context_, 1, n, args.at, first), dy, dx);
              });
  }

  Context* const context_;
};

}  // namespace

std::unique_ptr<ElementwiseOps> CreateElementwiseOps(Precision precision,
                                                     Context* context) {
  return CreateOps<ElementwiseOps, CpuElementwiseOps>(precision, context);
}

}  // namespace tributary::cpu
