// Batch normalization.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_BATCH_NORM_H_
#define TRIBUTARY_WORKER_NN_LAYERS_BATCH_NORM_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Normalizes each channel of X[samples, channels, pixels], with mean m and
// (biased) variance v over its N = samples * pixels elements in the
// micro-batch:
//   y = n * scale + shift [+ r],  n = (x - m) / sqrt(v + 1e-5),
// followed by max(y, 0) with `relu`. Input 0 is X; with `residual`, input 1 is
// r, of the same shape. With g = dy, or 0 where `relu` set the output to 0:
//   dx = (g - mean(g) - n * mean(g * n)) * scale / sqrt(v + 1e-5),  dr = g
//   dscale = sum of g * n,  dshift = sum of g.
// Source: Ioffe and Szegedy, "Batch normalization" (2015). Adding r, as in
// residual networks, is part of this layer because a separate addition would
// take another pass over memory.
//
// Parameters, as in torch.nn.BatchNorm2d: "weight" (scale, initially 1), "bias"
// (shift, initially 0), "running_mean" (initially 0) and "running_var"
// (initially 1). The last two, of group STATISTICS, replace m and v outside
// training. Their "gradients" are sample_count * (running_mean - m) and
// sample_count * (running_var - v * N / (N - 1)), so that the running
// statistics follow the mean over micro-batches; see OptimizerGroup in
// proto/parameter_server.proto. If N is 1, which PyTorch rejects, n is 0 and
// the observed variance is 0.
class BatchNorm : public Layer {
 public:
  struct Options {
    int64_t channels = 0;
    int64_t pixels = 0;  // Per sample.
    bool relu = false;
    bool residual = false;
  };
  explicit BatchNorm(const Options& options) : options_(options) {}

  LayerSpec Spec() const override;
  // Returns the number of floats that Forward saves for Backward: the mean and
  // the variance of each channel.
  int64_t SavedElements(const Device& device, int64_t samples) const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  void Evaluate(const LayerCall& call, const LayerTensors& tensors) const;
  BatchNormShape ShapeOf(const LayerCall& call) const;

  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_BATCH_NORM_H_
