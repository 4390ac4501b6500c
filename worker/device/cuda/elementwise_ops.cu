#include "common/cuda/launch.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/map.h"

namespace tributary::cuda {
namespace {

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

__device__ inline float Logistic(float x) { return 1.0f / (1.0f + expf(-x)); }

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
    Forward("ReluForward", args,
            [] __device__(float v, float) { return v < 0.0f ? 0.0f : v; });
  }
  void ReluBackward(const GradientArguments& args) override {
    Backward("ReluBackward", args,
             [] __device__(float v, float dv) { return v > 0.0f ? dv : 0.0f; });
  }
  void GeluForward(const MapArguments& args) override {
    Forward("GeluForward", args,
            [] __device__(float v, float) { return v * GeluGatesOf(v).gate; });
  }
  void GeluBackward(const GradientArguments& args) override {
    Backward("GeluBackward", args, [] __device__(float v, float dv) {
      const GeluGates gates = GeluGatesOf(v);
      const float slope = kSqrt2OverPi * (1.0f + 3.0f * kGeluCubic * v * v);
      return dv * (gates.gate + v * (2.0f * slope) * (gates.gate * gates.rest));
    });
  }
  void ExactGeluForward(const MapArguments& args) override {
    Forward("ExactGeluForward", args, [] __device__(float v, float) {
      return v * (0.5f * erfcf(-0.7071067812f * v));
    });
  }
  void ExactGeluBackward(const GradientArguments& args) override {
    Backward("ExactGeluBackward", args, [] __device__(float v, float dv) {
      const float distribution = 0.5f * erfcf(-0.7071067812f * v);
      const float density = 0.3989422804f * expf(-0.5f * v * v);
      return dv * (distribution + v * density);
    });
  }
  void TanhForward(const MapArguments& args) override {
    Forward("TanhForward", args,
            [] __device__(float v, float) { return tanhf(v); });
  }
  void TanhBackward(const GradientArguments& args) override {
    Backward("TanhBackward", args,
             [] __device__(float v, float dv) { return dv * (1.0f - v * v); });
  }
  void SigmoidForward(const MapArguments& args) override {
    Forward("SigmoidForward", args,
            [] __device__(float v, float) { return Logistic(v); });
  }
  void SigmoidBackward(const GradientArguments& args) override {
    Backward("SigmoidBackward", args, [] __device__(float v, float dv) {
      return dv * (v * (1.0f - v));
    });
  }
  void SiluForward(const MapArguments& args) override {
    Forward("SiluForward", args,
            [] __device__(float v, float) { return v * Logistic(v); });
  }
  void SiluBackward(const GradientArguments& args) override {
    Backward("SiluBackward", args, [] __device__(float v, float dv) {
      return dv * (Logistic(v) * (1.0f + v * Logistic(-v)));
    });
  }
  void LeakyReluForward(const MapArguments& args) override {
    const float alpha = args.alpha;
    Forward("LeakyReluForward", args, [alpha] __device__(float v, float) {
      return v > 0.0f ? v : alpha * v;
    });
  }
  void LeakyReluBackward(const GradientArguments& args) override {
    const float alpha = args.alpha;
    Backward("LeakyReluBackward", args, [alpha] __device__(float v, float dv) {
      return v > 0.0f ? dv : alpha * dv;
    });
  }
  void EluForward(const MapArguments& args) override {
    const float alpha = args.alpha;
    Forward("EluForward", args, [alpha] __device__(float v, float) {
      return v > 0.0f ? v : alpha * expm1f(v);
    });
  }
  void EluBackward(const GradientArguments& args) override {
    const float alpha = args.alpha;
    Backward("EluBackward", args, [alpha] __device__(float v, float dv) {
      return v > 0.0f ? dv : dv * (alpha * expf(v));
    });
  }
  void SoftplusForward(const MapArguments& args) override {
    Forward("SoftplusForward", args, [] __device__(float v, float) {
      return (v < 0.0f ? 0.0f : v) + log1pf(expf(-fabsf(v)));
    });
  }
  void SoftplusBackward(const GradientArguments& args) override {
    Backward("SoftplusBackward", args,
             [] __device__(float v, float dv) { return dv * Logistic(v); });
  }
  void Dropout(const DropoutArguments& args) override {
    Drop(context_->Current(), args.count, args.stream, context_->random_base(),
         args.rate, As<T>(args.x), As<T>(args.y));
  }

 private:
  // Sets y to function(x, x).
  template <typename Function>
  void Forward(const char* operation, const MapArguments& args,
               const Function& function) {
    Map(context_->Current(), operation, args.count, As<T>(args.x),
        static_cast<const T*>(nullptr), As<T>(args.y), function);
  }
  // Sets dx to function(at, dy).
  template <typename Function>
  void Backward(const char* operation, const GradientArguments& args,
                const Function& function) {
    Map(context_->Current(), operation, args.count, As<T>(args.at),
        As<T>(args.dy), As<T>(args.dx), function);
  }

  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<ElementwiseOps> CreateElementwiseOps(Precision precision,
                                                     CudaContext* context) {
  return CreateOps<ElementwiseOps, CudaElementwiseOps>(precision, context);
}

}  // namespace tributary::cuda
