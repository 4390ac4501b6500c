// Element-wise nonlinear functions.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_ACTIVATION_H_
#define TRIBUTARY_WORKER_NN_LAYERS_ACTIVATION_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Base class of the activation layers: applies a function to each element. X
// and Y have the shape [samples, size].
class ActivationLayer : public Layer {
 public:
  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 protected:
  // States whether the derivative is computed from the function's input or from
  // its output. In the latter case, the layer may overwrite its input, because
  // backward does not read it.
  enum class At { kInput, kOutput };
  struct Function {
    void (ElementwiseOps::*forward)(const ElementwiseOps::MapArguments&);
    void (ElementwiseOps::*backward)(const ElementwiseOps::GradientArguments&);
    At at;
    bool is_gelu = false;  // See LayerSpec::is_gelu.
    float alpha = 0;       // See ElementwiseOps::MapArguments.
  };

  ActivationLayer(const Function& function, int64_t size);

 private:
  const Function function_;
  const int64_t size_;
};

// Rectified linear unit: y = max(x, 0); dx = dy where y > 0, else 0.
class Relu : public ActivationLayer {
 public:
  explicit Relu(int64_t size);
};

// Gaussian error linear unit:
//   y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))),
// the approximation of Hendrycks and Gimpel, "Gaussian error linear units"
// (2016), which GPT-2 uses.
class Gelu : public ActivationLayer {
 public:
  explicit Gelu(int64_t size);
};

// Gaussian error linear unit: y = x Phi(x), where Phi is the distribution
// function of the standard normal distribution (Hendrycks and Gimpel, 2016).
// BERT uses this form.
class ExactGelu : public ActivationLayer {
 public:
  explicit ExactGelu(int64_t size);
};

// Hyperbolic tangent: y = tanh(x); dx = dy (1 - y^2).
class Tanh : public ActivationLayer {
 public:
  explicit Tanh(int64_t size);
};

// Logistic function: y = 1 / (1 + exp(-x)); dx = dy y (1 - y).
class Sigmoid : public ActivationLayer {
 public:
  explicit Sigmoid(int64_t size);
};

// Sigmoid linear unit, or swish: y = x s with s = 1 / (1 + exp(-x)) (Elfwing et
// al., 2017); dx = dy s (1 + x (1 - s)).
class Silu : public ActivationLayer {
 public:
  explicit Silu(int64_t size);
};

// Leaky rectified linear unit: y = x where x > 0, else alpha x (Maas et al.,
// 2013); dx = dy where x > 0, else alpha dy.
class LeakyRelu : public ActivationLayer {
 public:
  explicit LeakyRelu(int64_t size, float alpha = 0.01f);
};

// Exponential linear unit: y = x where x > 0, else alpha (exp(x) - 1) (Clevert
// et al., 2015); dx = dy where x > 0, else dy alpha exp(x).
class Elu : public ActivationLayer {
 public:
  explicit Elu(int64_t size, float alpha = 1);
};

// Softplus: y = ln(1 + exp(x)); dx = dy / (1 + exp(-x)).
class Softplus : public ActivationLayer {
 public:
  explicit Softplus(int64_t size);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_ACTIVATION_H_
