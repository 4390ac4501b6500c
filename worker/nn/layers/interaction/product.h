// Product of two values.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_PRODUCT_H_
#define TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_PRODUCT_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Multiplies its two inputs element by element: y = a b; da = dy b, db = dy a.
// All tensors have the shape [samples, size].
class Product : public Layer {
 public:
  explicit Product(int64_t size) : size_(size) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const int64_t size_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_PRODUCT_H_
