// Two-dimensional convolutions.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_CONVOLUTION_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_CONVOLUTION_OPS_H_

#include <cstdint>

#include "worker/device/ops/real.h"

namespace tributary {

// The shape of a convolution. Images have the shape [batch, channels, height,
// width]; kernels, [out_channels, in_channels, kernel, kernel].
struct ConvolutionShape {
  int64_t batch = 0;
  int64_t in_channels = 0, in_height = 0, in_width = 0;
  int64_t out_channels = 0, out_height = 0, out_width = 0;
  int64_t kernel = 0, stride = 1, padding = 0;
};

// Convolutions, as in worker/nn/layers/convolution.h. A device may round sums
// to its number format before it adds the bias. See worker/device/device.h for
// the conventions of all operations.
class ConvolutionOps {
 public:
  struct ForwardArguments {
    ConvolutionShape shape;
    const Real* x = nullptr;  // [batch, in_channels, in_height, in_width]
    const Real* weight =
        nullptr;                  // [out_channels, in_channels, kernel, kernel]
    const float* bias = nullptr;  // [out_channels]; null stands for 0.
    Real* y = nullptr;  // [batch, out_channels, out_height, out_width]
  };
  struct BackwardInputArguments {
    ConvolutionShape shape;
    const Real* dy = nullptr;  // [batch, out_channels, out_height, out_width]
    const Real* weight =
        nullptr;         // [out_channels, in_channels, kernel, kernel]
    Real* dx = nullptr;  // [batch, in_channels, in_height, in_width]
  };
  struct BackwardWeightArguments {
    ConvolutionShape shape;
    const Real* x = nullptr;   // [batch, in_channels, in_height, in_width]
    const Real* dy = nullptr;  // [batch, out_channels, out_height, out_width]
    float* dweight = nullptr;  // [out_channels, in_channels, kernel, kernel]
    float* dbias = nullptr;    // [out_channels]; null skips it.
  };

  virtual ~ConvolutionOps() = default;

  virtual void Forward(const ForwardArguments& args) = 0;
  virtual void BackwardInput(const BackwardInputArguments& args) = 0;
  virtual void BackwardWeight(const BackwardWeightArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_CONVOLUTION_OPS_H_
