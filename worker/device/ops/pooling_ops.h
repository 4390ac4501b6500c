// Pooling over the planes of images.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_POOLING_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_POOLING_OPS_H_

#include <cstdint>

#include "worker/device/ops/real.h"

namespace tributary {

// The shape of a pooling operation from images of the shape [batch, channels,
// in_height, in_width] to images of the shape [batch, channels, out_height,
// out_width].
struct PoolShape {
  int64_t batch = 0, channels = 0;
  int64_t in_height = 0, in_width = 0, out_height = 0, out_width = 0;
  // Side of the square windows, in pixels. Windows that do not fit into the
  // image and its padding are omitted.
  int64_t window = 0;
  // For max pooling only. `stride` is the distance between the starts of
  // windows; 0 stands for `window`. `padding` is the width of a border around
  // the image; no element of the border is a maximum.
  int64_t stride = 0, padding = 0;

  int64_t Stride() const { return stride > 0 ? stride : window; }
};

// Pooling and its gradients. See worker/device/device.h for the conventions of
// all operations.
class PoolingOps {
 public:
  struct MaxForwardArguments {
    PoolShape shape;
    const Real* x = nullptr;    // Shape of the input.
    Real* y = nullptr;          // Shape of the output.
    int32_t* argmax = nullptr;  // Shape of the output.
  };
  struct MaxBackwardArguments {
    PoolShape shape;
    const Real* dy = nullptr;         // Shape of the output.
    const int32_t* argmax = nullptr;  // Shape of the output.
    Real* dx = nullptr;               // Shape of the input.
  };
  struct AverageForwardArguments {
    PoolShape shape;
    const Real* x = nullptr;  // Shape of the input.
    Real* y = nullptr;        // Shape of the output.
  };
  struct AverageBackwardArguments {
    PoolShape shape;
    const Real* dy = nullptr;  // Shape of the output.
    Real* dx = nullptr;        // Shape of the input.
  };
  struct GlobalAverageForwardArguments {
    int64_t planes = 0, pixels = 0;
    const Real* x = nullptr;  // [planes, pixels]
    Real* y = nullptr;        // [planes]
  };
  struct GlobalAverageBackwardArguments {
    int64_t planes = 0, pixels = 0;
    const Real* dy = nullptr;  // [planes]
    Real* dx = nullptr;        // [planes, pixels]
  };

  virtual ~PoolingOps() = default;

  // MaxForward computes the maximum of each window, and writes to `argmax` the
  // index of the maximum within its plane of the input. Of equal maximums,
  // `argmax` is the first one in row-major order. MaxBackward sets dx to 0
  // and then adds each element of dy, in the order of the windows, to the
  // element of dx with the index in `argmax`.
  virtual void MaxForward(const MaxForwardArguments& args) = 0;
  virtual void MaxBackward(const MaxBackwardArguments& args) = 0;
  // AverageForward computes the mean of each window. AverageBackward
  // distributes each element of dy equally over its window.
  virtual void AverageForward(const AverageForwardArguments& args) = 0;
  virtual void AverageBackward(const AverageBackwardArguments& args) = 0;
  // GlobalAverageForward computes y[plane] = mean of x[plane, :] over all
  // pixels of the plane. GlobalAverageBackward distributes dy[plane] equally
  // over these pixels.
  virtual void GlobalAverageForward(
      const GlobalAverageForwardArguments& args) = 0;
  virtual void GlobalAverageBackward(
      const GlobalAverageBackwardArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_POOLING_OPS_H_
