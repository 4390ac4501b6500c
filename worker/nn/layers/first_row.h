// Selection of the first row of each sample.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_FIRST_ROW_H_
#define TRIBUTARY_WORKER_NN_LAYERS_FIRST_ROW_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Selects the first row of each sample: y[b, :] = x[b, 0, :], with the shapes
// X[samples, rows, width] and Y[samples, width]. In BERT, row 0 is the vector
// of the token [CLS]. The gradient of all other rows is 0. `rows` * `width`
// must be even, because Backward sets gradients to zero in units of four bytes.
class FirstRow : public Layer {
 public:
  FirstRow(int64_t rows, int64_t width) : rows_(rows), width_(width) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const int64_t rows_;
  const int64_t width_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_FIRST_ROW_H_
