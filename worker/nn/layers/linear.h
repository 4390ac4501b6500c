// Fully connected layers.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_LINEAR_H_
#define TRIBUTARY_WORKER_NN_LAYERS_LINEAR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/nn/layers/initializer.h"
#include "worker/nn/layers/layer.h"

namespace tributary {

// A linear layer: Y = X W^T + b on each row, with the shapes X[samples * rows,
// inputs], W[outputs, inputs] (as in torch.nn.Linear), b[outputs] and
// Y[samples * rows, outputs].
//   dX = dY W;  dW = dY^T X;  db = column sums of dY.
// With `padding`, each row of Y has `padding` more elements, which are
// kPaddingLogit: in a softmax, their probability and their gradient are 0.
// Parameters: "weight" and, with `bias`, "bias".
class Linear : public Layer {
 public:
  struct Options {
    // Rows per sample: 1, or the number of tokens of a sequence.
    int64_t rows = 1;
    int64_t inputs = 0;
    int64_t outputs = 0;
    // Number of elements added to each row of Y to reach a size for which
    // matrix products are fast. Must be 0 with `bias`.
    int64_t padding = 0;
    bool bias = true;
    Initializer weight_initializer;
    Initializer bias_initializer;
  };
  // Logit of padding elements: so low that its probability in a softmax is 0,
  // and finite in every number format.
  static constexpr float kPaddingLogit = -1e30f;

  // Returns options with the initial weights and biases of torch.nn.Linear.
  static Options FanInOptions(int64_t inputs, int64_t outputs);

  explicit Linear(const Options& options) : options_(options) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  void ForwardWithGelu(const LayerCall& call,
                       const LayerTensors& tensors) const;
  void BackwardInput(const LayerCall& call, const LayerTensors& tensors) const;
  LinearShape ShapeOf(const LayerCall& call) const;
  const float* BiasOf(const LayerTensors& tensors) const;

  const Options options_;
};

// Up to three linear layers of equal size that read the same rows: Y = X [W_0;
// W_1; ...]^T + [b_0, b_1, ...] on each row, with the shapes X[samples * rows,
// inputs], W_i[outputs, inputs], b_i[outputs] and Y[samples * rows, number of
// names * outputs]. The gradients are those of Linear.
//
// Parameters: "<name>.weight" for each name, then "<name>.bias" for each name.
// In this order, all weights and all biases are contiguous in memory, so that
// one matrix product computes all layers without copying them. The caller must
// ensure that `outputs` is a multiple of kArenaAlignment.
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

#endif  // TRIBUTARY_WORKER_NN_LAYERS_LINEAR_H_
