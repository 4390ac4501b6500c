// Dropout.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_DROPOUT_H_
#define TRIBUTARY_WORKER_NN_LAYERS_DROPOUT_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Dropout. In training, y = x / (1 - rate) with probability 1 - rate, and y = 0
// otherwise. Random number i of the layer's stream determines whether element i
// of the micro-batch is kept. The gradient is scaled in the same way. Outside
// training y = x. X and Y: [samples, size]. Source: Srivastava et al.,
// "Dropout", JMLR 15 (2014), with the scaling moved to training.
class Dropout : public Layer {
 public:
  // Requires `rate` in [0, 1).
  Dropout(int64_t size, float rate) : size_(size), rate_(rate) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  // Applies dropout to the values or to their gradients. For the same
  // `call.stream`, drops the same elements.
  void Apply(const LayerCall& call, const Real* x, Real* y) const;

  const int64_t size_;
  const float rate_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_DROPOUT_H_
