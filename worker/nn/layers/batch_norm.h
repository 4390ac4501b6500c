// Batch normalization.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_BATCH_NORM_H_
#define TRIBUTARY_WORKER_NN_LAYERS_BATCH_NORM_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// On each channel of X[samples, channels, pixels], with mean m and (biased)
// variance v over all of its N = samples * pixels elements in the leaf:
//   y = n * scale + shift [+ r],  n = (x - m) / sqrt(v + 1e-5),
// then max(y, 0) with `relu`. Input 0 is X; with `residual`, input 1 is r, of
// the same shape. With g = dy, or 0 where `relu` has cut off:
//   dx = (g - mean(g) - n * mean(g * n)) * scale / sqrt(v + 1e-5),  dr = g
//   dscale = sum of g * n,  dshift = sum of g.
// Source: Ioffe and Szegedy, "Batch normalization" (2015); the sum behind it is
// that of residual networks, here because each by itself would be a pass over
// memory.
//
// Parameters, as in torch.nn.BatchNorm2d: "weight" (scale, starts at 1), "bias"
// (shift, starts at 0), "running_mean" (starts at 0) and "running_var" (starts
// at 1). The last two, of group STATISTICS, take the place of m and v outside
// training. Their "gradients" are weight * (running_mean - m) and
// weight * (running_var - v * N / (N - 1)), so that they follow the leaves'
// means; see OptimizerGroup in proto/parameter_server.proto. Where N is 1,
// which PyTorch refuses, n is 0 and the variance observed is 0.
//
// The gradient of input 0 is always wanted: this is never the first layer.
class BatchNorm : public Layer {
 public:
  struct Options {
    int64_t channels = 0;
    int64_t pixels = 0;  // Of one sample.
    bool relu = false;
    bool residual = false;
  };
  explicit BatchNorm(const Options& options) : options_(options) {}

  LayerSpec Spec() const override;
  // Each channel's mean and variance.
  int64_t SavedElements(const Device& device, int64_t samples) const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  BatchNormShape ShapeOf(const LayerCall& call) const;

  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_BATCH_NORM_H_
