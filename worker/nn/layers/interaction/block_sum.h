// Sum of the vectors of a sample.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_BLOCK_SUM_H_
#define TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_BLOCK_SUM_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Adds the vectors of a sample: y = x_0 + x_1 + ..., in this order, or, with
// `bias`, y = b + x_0 + x_1 + .... X has the shape [samples, count, width], b
// [width] and Y [samples, width]. The gradient of each vector is that of y; db
// is the column sums of dY. Parameter: "bias", initially 0.
class BlockSum : public Layer {
 public:
  struct Options {
    int64_t count = 1;
    int64_t width = 1;
    bool bias = false;
  };

  explicit BlockSum(const Options& options) : options_(options) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_BLOCK_SUM_H_
