// Element-wise nonlinear functions.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_ACTIVATION_H_
#define TRIBUTARY_WORKER_NN_LAYERS_ACTIVATION_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Rectified linear unit: y = max(x, 0); dx = dy where y > 0, else 0. X and Y
// have the shape [samples, size].
class Relu : public Layer {
 public:
  explicit Relu(int64_t size) : size_(size) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const int64_t size_;
};

// Gaussian error linear unit:
//   y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))),
// the approximation of Hendrycks and Gimpel, "Gaussian error linear units"
// (2016), which GPT-2 uses. X and Y have the shape [samples, size].
class Gelu : public Layer {
 public:
  explicit Gelu(int64_t size) : size_(size) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const int64_t size_;
};

// Gaussian error linear unit: y = x Phi(x), where Phi is the distribution
// function of the standard normal distribution (Hendrycks and Gimpel, 2016).
// BERT uses this form. X and Y have the shape [samples, size].
class ExactGelu : public Layer {
 public:
  explicit ExactGelu(int64_t size) : size_(size) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const int64_t size_;
};

// Hyperbolic tangent: y = tanh(x); dx = dy (1 - y^2). X and Y have the shape
// [samples, size].
class Tanh : public Layer {
 public:
  explicit Tanh(int64_t size) : size_(size) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const int64_t size_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_ACTIVATION_H_
