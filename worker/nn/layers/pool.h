// Pooling over windows of images.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_POOL_H_
#define TRIBUTARY_WORKER_NN_LAYERS_POOL_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Max pooling: each element of the output is the maximum of X over a window:
//   Y[n, c, i, j] = max of X[n, c, i * stride - padding + u,
//                             j * stride - padding + v] for u, v < window,
// where elements outside of X are ignored. Of equal values the first in
// row-major order receives the gradient (as in torch.nn.MaxPool2d). An
// incomplete last window is dropped. X[samples, channels, in_height, in_width];
// Y[samples, channels, out_height, out_width], out = (in + 2 * padding -
// window) / stride + 1, rounded down.
class MaxPool : public Layer {
 public:
  // Ignores `shape.batch`.
  explicit MaxPool(const PoolShape& shape) : shape_(shape) {}

  LayerSpec Spec() const override;
  // Returns the number of floats that Forward saves for Backward: the positions
  // of the maximums, one for each element of the output.
  int64_t SavedElements(const Device& device, int64_t samples) const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const PoolShape shape_;
};

// Like MaxPool, but computes the mean of each window, and distributes the
// gradient equally over the window (torch.nn.AvgPool2d). Windows neither
// overlap nor extend beyond the image: the stride is the size of the window,
// and there is no padding.
class AveragePool : public Layer {
 public:
  explicit AveragePool(const PoolShape& shape) : shape_(shape) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const PoolShape shape_;
};

// Computes the mean of each channel: Y[n, c] = mean of X[n, c, :] over all
// pixels (torch.nn.AdaptiveAvgPool2d to one pixel).
class GlobalAveragePool : public Layer {
 public:
  GlobalAveragePool(int64_t channels, int64_t pixels)
      : channels_(channels), pixels_(pixels) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const int64_t channels_;
  const int64_t pixels_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_POOL_H_
