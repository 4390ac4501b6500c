// Operations on each element of a tensor.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_ELEMENTWISE_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_ELEMENTWISE_OPS_H_

#include <cstdint>

#include "common/numerics/philox.h"
#include "worker/device/ops/real.h"

namespace tributary {

// Conventions: worker/device/device.h. NaN stays NaN, so that divergence is
// visible.
class ElementwiseOps {
 public:
  // y may be x, except for Copy and Add.
  struct MapArguments {
    int64_t count = 0;
    const Real* x = nullptr;  // [count]
    Real* y = nullptr;        // [count]
  };
  // dx may be dy.
  struct GradientArguments {
    int64_t count = 0;
    // [count]: the function's input, or its output where the comment of the
    // operation says so.
    const Real* at = nullptr;
    const Real* dy = nullptr;  // [count]
    Real* dx = nullptr;        // [count]
  };
  struct RoundArguments {
    int64_t count = 0;
    const float* from = nullptr;  // [count]
    Real* to = nullptr;           // [count]
  };
  // y may be x.
  struct DropoutArguments {
    int64_t count = 0;
    RandomStream stream;
    float rate = 0;           // In [0, 1).
    const Real* x = nullptr;  // [count]
    Real* y = nullptr;        // [count]
  };

  virtual ~ElementwiseOps() = default;

  // to = from, rounded.
  virtual void Round(const RoundArguments& args) = 0;
  // y = x.
  virtual void Copy(const MapArguments& args) = 0;
  // y += x, for gradients of a value with several consumers.
  virtual void Add(const MapArguments& args) = 0;

  // y = max(x, 0).
  virtual void ReluForward(const MapArguments& args) = 0;
  // dx = dy where `at`, the output, is above 0, else 0.
  virtual void ReluBackward(const GradientArguments& args) = 0;
  // y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
  virtual void GeluForward(const MapArguments& args) = 0;
  virtual void GeluBackward(const GradientArguments& args) = 0;
  // y = x / (1 - rate) where UniformFloat(number i of the stream) >= rate, else
  // 0. Also computes the gradient dx (as `y`) from dy (as `x`).
  virtual void Dropout(const DropoutArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_ELEMENTWISE_OPS_H_
