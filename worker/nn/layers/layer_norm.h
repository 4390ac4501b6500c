// Layer normalization.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_LAYER_NORM_H_
#define TRIBUTARY_WORKER_NN_LAYERS_LAYER_NORM_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Normalizes each row x of X[samples * rows, width], with its mean m and
// (biased) variance v:
//   y = n * scale + shift,  n = (x - m) / sqrt(v + epsilon)
//   dx = (g - mean(g) - n * mean(g * n)) / sqrt(v + epsilon),  g = dy * scale
//   dscale = sum of dy * n,  dshift = sum of dy, over rows.
// Parameters, as in torch.nn.LayerNorm: "weight" (scale, initially 1) and, with
// `bias`, "bias" (shift, initially 0). Source: Ba, Kiros and Hinton, "Layer
// normalization" (2016).
class LayerNorm : public Layer {
 public:
  // `rows` is the number of rows per sample.
  LayerNorm(int64_t rows, int64_t width, bool bias, float epsilon = 1e-5f)
      : rows_(rows), width_(width), bias_(bias), epsilon_(epsilon) {}

  LayerSpec Spec() const override;
  // Returns the number of floats that Forward saves for Backward: the mean and
  // the inverse standard deviation of each row.
  int64_t SavedElements(const Device& device, int64_t samples) const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const int64_t rows_;
  const int64_t width_;
  const bool bias_;
  const float epsilon_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_LAYER_NORM_H_
