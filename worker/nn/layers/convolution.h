// Two-dimensional convolution.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_CONVOLUTION_H_
#define TRIBUTARY_WORKER_NN_LAYERS_CONVOLUTION_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Cross-correlation with a square kernel, as in torch.nn.Conv2d:
//   Y[n, o, i, j] = b[o] + sum over c, u, v of
//                   X[n, c, i * stride + u - padding, j * stride + v - padding]
//                   * W[o, c, u, v],  with zeros outside of X.
// X[samples, in_channels, in_height, in_width];
// W[out_channels, in_channels, kernel, kernel], b[out_channels];
// Y[samples, out_channels, out_height, out_width].
// Parameters: "weight" and, with `bias`, "bias".
class Convolution : public Layer {
 public:
  struct Options {
    ConvolutionShape shape;  // `batch` is not used.
    bool bias = true;
    Initializer weight_initializer;
    Initializer bias_initializer;
  };
  // Returns options with the initial weights and biases of torch.nn.Conv2d.
  static Options FanInOptions(const ConvolutionShape& shape);
  // Returns options without a bias, for a convolution that precedes a batch
  // norm, whose shift replaces the bias. Weights are initialized as in
  // torchvision's residual networks.
  static Options FanOutOptions(const ConvolutionShape& shape);

  explicit Convolution(const Options& options) : options_(options) {}

  // Returns the height of the output for an input of height `side`, or its
  // width for an input of width `side`, in pixels. A result below 1 means that
  // there is no output.
  static int64_t OutputSide(int64_t side, int64_t kernel, int64_t stride,
                            int64_t padding);

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  ConvolutionShape ShapeOf(const LayerCall& call) const;

  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_CONVOLUTION_H_
