#include "common/cuda/launch.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/map.h"

namespace tributary::cuda {
namespace {

// In all of these the output may be an input.

template <typename T>
void Relu(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "ReluForward", count, x, static_cast<const T*>(nullptr), y,
      [] __device__(float v, float) { return v < 0.0f ? 0.0f : v; });
}

template <typename T>
void ReluGradient(Stream& stream, int64_t count, const T* y, const T* dy,
                  T* dx) {
  Map(stream, "ReluBackward", count, y, dy, dx,
      [] __device__(float v, float dv) { return v > 0.0f ? dv : 0.0f; });
}

constexpr float kSqrt2OverPi = 0.7978845608f;
constexpr float kGeluCubic = 0.044715f;

// 0.5 (1 + tanh(u)) equals the logistic function of 2 u; `rest` is 1 - gate.
// Both are computed from exp(-2 |u|), which cannot overflow, and keep their
// relative precision near 0.
struct GeluGates {
  float gate, rest;
};

__device__ inline GeluGates GeluGatesOf(float x) {
  const float u = kSqrt2OverPi * (x + kGeluCubic * x * x * x);
  const float small = expf(-2.0f * fabsf(u));
  const float larger = 1.0f / (1.0f + small);
  const float smaller = small * larger;
  return u >= 0.0f ? GeluGates{larger, smaller} : GeluGates{smaller, larger};
}

template <typename T>
void Gelu(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "GeluForward", count, x, static_cast<const T*>(nullptr), y,
      [] __device__(float v, float) { return v * GeluGatesOf(v).gate; });
}

template <typename T>
void GeluGradient(Stream& stream, int64_t count, const T* x, const T* dy,
                  T* dx) {
  Map(stream, "GeluBackward", count, x, dy, dx,
      [] __device__(float v, float dv) {
        const GeluGates gates = GeluGatesOf(v);
        const float slope = kSqrt2OverPi * (1.0f + 3.0f * kGeluCubic * v * v);
        return dv *
               (gates.gate + v * (2.0f * slope) * (gates.gate * gates.rest));
      });
}

template <typename T>
void ExactGelu(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "ExactGeluForward", count, x, static_cast<const T*>(nullptr), y,
      [] __device__(float v, float) {
        return v * (0.5f * erfcf(-0.7071067812f * v));
      });
}

template <typename T>
void ExactGeluGradient(Stream& stream, int64_t count, const T* x, const T* dy,
                       T* dx) {
  Map(stream, "ExactGeluBackward", count, x, dy, dx,
      [] __device__(float v, float dv) {
        const float distribution = 0.5f * erfcf(-0.7071067812f * v);
        const float density = 0.3989422804f * expf(-0.5f * v * v);
        return dv * (distribution + v * density);
      });
}

template <typename T>
void Tanh(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "TanhForward", count, x, static_cast<const T*>(nullptr), y,
      [] __device__(float v, float) { return tanhf(v); });
}

template <typename T>
void TanhGradient(Stream& stream, int64_t count, const T* y, const T* dy,
                  T* dx) {
  Map(stream, "TanhBackward", count, y, dy, dx,
      [] __device__(float v, float dv) { return dv * (1.0f - v * v); });
}

__device__ inline float Logistic(float x) { return 1.0f / (1.0f + expf(-x)); }

template <typename T>
void Sigmoid(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "SigmoidForward", count, x, static_cast<const T*>(nullptr), y,
      [] __device__(float v, float) { return Logistic(v); });
}

template <typename T>
void SigmoidGradient(Stream& stream, int64_t count, const T* y, const T* dy,
                     T* dx) {
  Map(stream, "SigmoidBackward", count, y, dy, dx,
      [] __device__(float v, float dv) { return dv * (v * (1.0f - v)); });
}

template <typename T>
void Silu(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "SiluForward", count, x, static_cast<const T*>(nullptr), y,
      [] __device__(float v, float) { return v * Logistic(v); });
}

template <typename T>
void SiluGradient(Stream& stream, int64_t count, const T* x, const T* dy,
                  T* dx) {
  Map(stream, "SiluBackward", count, x, dy, dx,
      [] __device__(float v, float dv) {
        return dv * (Logistic(v) * (1.0f + v * Logistic(-v)));
      });
}

template <typename T>
void LeakyRelu(Stream& stream, int64_t count, float alpha, const T* x, T* y) {
  Map(stream, "LeakyReluForward", count, x, static_cast<const T*>(nullptr), y,
      [alpha] __device__(float v, float) { return v > 0.0f ? v : alpha * v; });
}

template <typename T>
void LeakyReluGradient(Stream& stream, int64_t count, float alpha, const T* x,
                       const T* dy, T* dx) {
  Map(stream, "LeakyReluBackward", count, x, dy, dx,
      [alpha] __device__(float v, float dv) {
        return v > 0.0f ? dv : alpha * dv;
      });
}

template <typename T>
void Elu(Stream& stream, int64_t count, float alpha, const T* x, T* y) {
  Map(stream, "EluForward", count, x, static_cast<const T*>(nullptr), y,
      [alpha] __device__(float v, float) {
        return v > 0.0f ? v : alpha * expm1f(v);
      });
}

template <typename T>
void EluGradient(Stream& stream, int64_t count, float alpha, const T* x,
                 const T* dy, T* dx) {
  Map(stream, "EluBackward", count, x, dy, dx,
      [alpha] __device__(float v, float dv) {
        return v > 0.0f ? dv : dv * (alpha * expf(v));
      });
}

template <typename T>
void Softplus(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "SoftplusForward", count, x, static_cast<const T*>(nullptr), y,
      [] __device__(float v, float) {
        return (v < 0.0f ? 0.0f : v) + log1pf(expf(-fabsf(v)));
      });
}

template <typename T>
void SoftplusGradient(Stream& stream, int64_t count, const T* x, const T* dy,
                      T* dx) {
  Map(stream, "SoftplusBackward", count, x, dy, dx,
      [] __device__(float v, float dv) { return dv * Logistic(v); });
}

__device__ inline float DropOne(uint32_t number, float rate, float scale,
                                float x) {
  return UniformFloat(number) >= rate ? x * scale : 0.0f;
}

// Each thread handles four elements, which share a block of random numbers.
template <typename T>
void Drop(Stream& stream, int64_t count, const RandomStream& numbers,
          const RandomBase* base, float rate, const T* x, T* y) {
  const float scale = 1.0f / (1.0f - rate);
  using Four = Neighbours<T, 4>;
  const bool aligned = IsAligned<Four>(x) && IsAligned<Four>(y);
  ForEach(stream, "Dropout", (count + 3) / 4, [=] __device__(int64_t block) {
    const PhiloxBlock four = base->Of(numbers).Block(block);
    const int64_t first = 4 * block;
    if (aligned && first + 4 <= count) {
      Four v = *reinterpret_cast<const Four*>(x + first);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        v.values[n] = DropOne(four[n], rate, scale, v.values[n]);
      }
      *reinterpret_cast<Four*>(y + first) = v;
      return;
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int64_t i = first + n;
      if (i < count) y[i] = DropOne(four[n], rate, scale, x[i]);
    }
  });
}

// T is what Real stands for.
template <typename T>
class CudaElementwiseOps final : public ElementwiseOps {
 public:
  explicit CudaElementwiseOps(CudaContext* context) : context_(context) {}

  void Round(const RoundArguments& args) override {
    Convert(context_->Current(), args.count, args.from, As<T>(args.to));
  }
  void Copy(const MapArguments& args) override {
    context_->Current().Enqueue("Copy", [&](cudaStream_t queue) {
      return cudaMemcpyAsync(args.y, args.x,
                             static_cast<size_t>(args.count) * sizeof(T),
                             cudaMemcpyDeviceToDevice, queue);
    });
  }
  void Add(const MapArguments& args) override {
    cuda::Add(context_->Current(), args.count, As<T>(args.x), As<T>(args.y));
  }
  void ReluForward(const MapArguments& args) override {
    Relu(context_->Current(), args.count, As<T>(args.x), As<T>(args.y));
  }
  void ReluBackward(const GradientArguments& args) override {
    ReluGradient(context_->Current(), args.count, As<T>(args.at),
                 As<T>(args.dy), As<T>(args.dx));
  }
  void GeluForward(const MapArguments& args) override {
    Gelu(context_->Current(), args.count, As<T>(args.x), As<T>(args.y));
  }
  void GeluBackward(const GradientArguments& args) override {
    GeluGradient(context_->Current(), args.count, As<T>(args.at),
                 As<T>(args.dy), As<T>(args.dx));
  }
  void ExactGeluForward(const MapArguments& args) override {
    ExactGelu(context_->Current(), args.count, As<T>(args.x), As<T>(args.y));
  }
  void ExactGeluBackward(const GradientArguments& args) override {
    ExactGeluGradient(context_->Current(), args.count, As<T>(args.at),
                      As<T>(args.dy), As<T>(args.dx));
  }
  void TanhForward(const MapArguments& args) override {
    Tanh(context_->Current(), args.count, As<T>(args.x), As<T>(args.y));
  }
  void TanhBackward(const GradientArguments& args) override {
    TanhGradient(context_->Current(), args.count, As<T>(args.at),
                 As<T>(args.dy), As<T>(args.dx));
  }
  void SigmoidForward(const MapArguments& args) override {
    Sigmoid(context_->Current(), args.count, As<T>(args.x), As<T>(args.y));
  }
  void SigmoidBackward(const GradientArguments& args) override {
    SigmoidGradient(context_->Current(), args.count, As<T>(args.at),
                    As<T>(args.dy), As<T>(args.dx));
  }
  void SiluForward(const MapArguments& args) override {
    Silu(context_->Current(), args.count, As<T>(args.x), As<T>(args.y));
  }
  void SiluBackward(const GradientArguments& args) override {
    SiluGradient(context_->Current(), args.count, As<T>(args.at),
                 As<T>(args.dy), As<T>(args.dx));
  }
  void LeakyReluForward(const MapArguments& args) override {
    LeakyRelu(context_->Current(), args.count, args.alpha, As<T>(args.x),
              As<T>(args.y));
  }
  void LeakyReluBackward(const GradientArguments& args) override {
    LeakyReluGradient(context_->Current(), args.count, args.alpha,
                      As<T>(args.at), As<T>(args.dy), As<T>(args.dx));
  }
  void EluForward(const MapArguments& args) override {
    Elu(context_->Current(), args.count, args.alpha, As<T>(args.x),
        As<T>(args.y));
  }
  void EluBackward(const GradientArguments& args) override {
    EluGradient(context_->Current(), args.count, args.alpha, As<T>(args.at),
                As<T>(args.dy), As<T>(args.dx));
  }
  void SoftplusForward(const MapArguments& args) override {
    Softplus(context_->Current(), args.count, As<T>(args.x), As<T>(args.y));
  }
  void SoftplusBackward(const GradientArguments& args) override {
    SoftplusGradient(context_->Current(), args.count, As<T>(args.at),
                     As<T>(args.dy), As<T>(args.dx));
  }
  void Dropout(const DropoutArguments& args) override {
    Drop(context_->Current(), args.count, args.stream, context_->random_base(),
         args.rate, As<T>(args.x), As<T>(args.y));
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<ElementwiseOps> CreateElementwiseOps(Precision precision,
                                                     CudaContext* context) {
  if (precision == Precision::kBfloat16) {
    return std::make_unique<CudaElementwiseOps<Bfloat16>>(context);
  }
  return std::make_unique<CudaElementwiseOps<float>>(context);
}

}  // namespace tributary::cuda
