// Residual connection.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_RESIDUAL_H_
#define TRIBUTARY_WORKER_NN_LAYERS_RESIDUAL_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// A residual connection, y = x + f(x): input 0 is the stream x, and input 1 is
// the branch f(x). The gradients of both inputs equal the gradient of y.
// Backward copies nothing if the memory plan lets the three gradients share a
// buffer. All tensors have the shape [samples, size]. Source: He et al., "Deep
// residual learning for image recognition" (2016).
class Residual : public Layer {
 public:
  explicit Residual(int64_t size) : size_(size) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const int64_t size_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_RESIDUAL_H_
