// Several linear layers with the same input, computed as one product.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_STACKED_LINEAR_H_
#define TRIBUTARY_WORKER_NN_LAYERS_STACKED_LINEAR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/nn/layers/initializer.h"
#include "worker/nn/layers/layer.h"

namespace tributary {

// Up to three linear layers of equal size that read the same rows: Y = X [W_0;
// W_1; ...]^T + [b_0, b_1, ...] on each row, with the shapes X[samples * rows,
// inputs], W_i[outputs, inputs], b_i[outputs] and Y[samples * rows, number of
// names * outputs]. The gradients are those of Linear.
//
// Parameters: "<name>.weight" for each name, then "<name>.bias" for each name.
// In this order, all weights and all biases are contiguous in the arena, so
// that one product reads them without a copy. This requires that `outputs` is a
// multiple of kArenaAlignment; the caller checks it.
class StackedLinear : public Layer {
 public:
  struct Options {
    std::vector<std::string> names;  // At most kMaxLayerParameters / 2.
    int64_t rows = 1;                // Rows per sample.
    int64_t inputs = 0;
    int64_t outputs = 0;  // Of each of the layers.
    Initializer weight_initializer;
    Initializer bias_initializer;
  };

  explicit StackedLinear(const Options& options) : options_(options) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  int64_t count() const { return static_cast<int64_t>(options_.names.size()); }
  LinearShape ShapeOf(const LayerCall& call) const;

  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_STACKED_LINEAR_H_
