// Operations on each element of a tensor.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_ELEMENTWISE_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_ELEMENTWISE_OPS_H_

#include <cstdint>

#include "common/numerics/philox.h"
#include "worker/device/ops/real.h"

namespace tributary {

// Operations on each element of a tensor. All functions map NaN to NaN, so that
// users can see that training has diverged. See worker/device/device.h for the
// conventions of all operations.
class ElementwiseOps {
 public:
  // Arguments of an operation that computes y[i] from x[i]. `y` may be `x`,
  // except for Copy and Add.
  struct MapArguments {
    int64_t count = 0;
    const Real* x = nullptr;  // [count]
    Real* y = nullptr;        // [count]
    // The constant of LeakyReluForward and EluForward; others do not use it.
    float alpha = 0;
  };
  // Arguments of an operation that computes the gradient dx of a function's
  // input from the gradient dy of its output. `dx` may be `dy`.
  struct GradientArguments {
    int64_t count = 0;
    // The function's input, or its output where the comment of the operation
    // says so; [count].
    const Real* at = nullptr;
    const Real* dy = nullptr;  // [count]
    Real* dx = nullptr;        // [count]
    // The constant of LeakyReluBackward and EluBackward.
    float alpha = 0;
  };
  struct RoundArguments {
    int64_t count = 0;
    const float* from = nullptr;  // [count]
    Real* to = nullptr;           // [count]
  };
  // Arguments of Dropout. `y` may be `x`.
  struct DropoutArguments {
    int64_t count = 0;
    RandomStream stream;
    float rate = 0;           // In [0, 1).
    const Real* x = nullptr;  // [count]
    Real* y = nullptr;        // [count]
  };

  virtual ~ElementwiseOps() = default;

  // Computes to = from, rounded to type Real, the device's number format.
  virtual void Round(const RoundArguments& args) = 0;
  // Computes y = x.
  virtual void Copy(const MapArguments& args) = 0;
  // Computes y += x. Used to add the gradients of a value that several layers
  // read.
  virtual void Add(const MapArguments& args) = 0;

  // Computes y = max(x, 0).
  virtual void ReluForward(const MapArguments& args) = 0;
  // Computes dx = dy where `at`, the output of ReluForward, is above 0, and dx
  // = 0 elsewhere.
  virtual void ReluBackward(const GradientArguments& args) = 0;
  // Computes GELU with the tanh approximation: y = 0.5 x (1 + tanh(sqrt(2 / pi)
  // (x + 0.044715 x^3))).
  virtual void GeluForward(const MapArguments& args) = 0;
  // Computes dx = dy times the derivative of GELU at `at`, the input of
  // GeluForward.
  virtual void GeluBackward(const GradientArguments& args) = 0;
  // ExactGeluForward computes GELU without approximation: y = x Phi(x), where
  // Phi is the distribution function of the standard normal distribution.
  // ExactGeluBackward computes the gradient; `at` is the input of
  // ExactGeluForward.
  virtual void ExactGeluForward(const MapArguments& args) = 0;
  virtual void ExactGeluBackward(const GradientArguments& args) = 0;
  // TanhForward computes y = tanh(x). TanhBackward computes dx = dy (1 - y^2);
  // `at` is the output y of TanhForward.
  virtual void TanhForward(const MapArguments& args) = 0;
  virtual void TanhBackward(const GradientArguments& args) = 0;
  // SigmoidForward computes y = s(x) with the logistic function s(x) = 1 / (1 +
  // exp(-x)). SigmoidBackward computes dx = dy y (1 - y); `at` is the output y
  // of SigmoidForward.
  virtual void SigmoidForward(const MapArguments& args) = 0;
  virtual void SigmoidBackward(const GradientArguments& args) = 0;
  // SiluForward computes y = x s(x). SiluBackward computes dx = dy s(x) (1 + x
  // (1 - s(x))). In the backward operations from here on, `at` is the input x
  // of the function.
  virtual void SiluForward(const MapArguments& args) = 0;
  virtual void SiluBackward(const GradientArguments& args) = 0;
  // LeakyReluForward computes y = x where x > 0, and y = alpha x elsewhere.
  // LeakyReluBackward computes the gradient.
  virtual void LeakyReluForward(const MapArguments& args) = 0;
  virtual void LeakyReluBackward(const GradientArguments& args) = 0;
  // EluForward computes y = x where x > 0, and y = alpha (exp(x) - 1)
  // elsewhere. EluBackward computes the gradient.
  virtual void EluForward(const MapArguments& args) = 0;
  virtual void EluBackward(const GradientArguments& args) = 0;
  // SoftplusForward computes y = ln(1 + exp(x)). SoftplusBackward computes dx =
  // dy s(x).
  virtual void SoftplusForward(const MapArguments& args) = 0;
  virtual void SoftplusBackward(const GradientArguments& args) = 0;
  // Sets each element i of y to x[i] / (1 - rate) if UniformFloat(random number
  // i of the stream) >= rate, and to 0 otherwise. To compute the gradient, pass
  // dy as `x` and dx as `y`.
  virtual void Dropout(const DropoutArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_ELEMENTWISE_OPS_H_
