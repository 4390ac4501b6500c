// Batch norm of each channel.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_BATCH_NORM_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_BATCH_NORM_OPS_H_

#include <cstdint>

#include "worker/device/ops/real.h"

namespace tributary {

// The shape of the images, [batch, channels, pixels]. Each channel is
// normalized over the batch and the pixels.
struct BatchNormShape {
  int64_t batch = 0, channels = 0, pixels = 0;
  bool relu = false;  // True to apply max(y, 0) to the output.
};

// Batch norm: y = (x - mean) / sqrt(variance + 1e-5) * scale + shift +
// residual. If shape.relu is true, y is then replaced by max(y, 0). See
// worker/device/device.h for the conventions of all operations.
class BatchNormOps {
 public:
  struct ForwardArguments {
    BatchNormShape shape;
    const Real* x = nullptr;         // [batch, channels, pixels]
    const float* scale = nullptr;    // [channels]
    const float* shift = nullptr;    // [channels]
    const Real* residual = nullptr;  // Shape of x; null stands for 0.
    Real* y = nullptr;               // Shape of x.
    float* mean = nullptr;           // [channels]
    float* variance = nullptr;       // [channels]
  };
  struct EvaluateArguments {
    BatchNormShape shape;
    const Real* x = nullptr;          // [batch, channels, pixels]
    const float* scale = nullptr;     // [channels]
    const float* shift = nullptr;     // [channels]
    const float* mean = nullptr;      // [channels]
    const float* variance = nullptr;  // [channels]; negative values count as 0.
    const Real* residual = nullptr;   // Shape of x; null stands for 0.
    Real* y = nullptr;                // Shape of x.
  };
  struct BackwardArguments {
    BatchNormShape shape;
    const Real* x = nullptr;          // [batch, channels, pixels]
    const float* scale = nullptr;     // [channels]
    const float* mean = nullptr;      // [channels]
    const float* variance = nullptr;  // [channels]
    const Real* y = nullptr;          // Shape of x; read only with shape.relu.
    const Real* dy = nullptr;         // Shape of x.
    Real* dx = nullptr;               // Shape of x; may be dy. Null skips it.
    float* dscale = nullptr;          // [channels]
    float* dshift = nullptr;          // [channels]
    Real* dresidual = nullptr;        // Shape of x; null skips it.
  };
  struct StatisticsGradientArguments {
    int64_t channels = 0;
    int64_t observations = 0;  // Batch times pixels.
    int64_t sample_count = 0;
    const float* mean = nullptr;              // [channels]
    const float* variance = nullptr;          // [channels]
    const float* running_mean = nullptr;      // [channels]
    const float* running_variance = nullptr;  // [channels]
    float* dmean = nullptr;                   // [channels]
    float* dvariance = nullptr;               // [channels]
  };

  virtual ~BatchNormOps() = default;

  // Computes and writes the mean and the (biased) variance of each channel over
  // the batch and its pixels, and normalizes x with them.
  virtual void Forward(const ForwardArguments& args) = 0;
  // Normalizes x with the given mean and variance.
  virtual void Evaluate(const EvaluateArguments& args) = 0;
  // Computes the gradients of Forward.
  virtual void Backward(const BackwardArguments& args) = 0;
  // Computes the values that stand in for gradients of the running statistics
  // and make the optimizer move them toward the statistics of the micro-batch:
  // dmean = sample_count * (running_mean - mean) and dvariance = sample_count *
  // (running_variance - unbiased variance). The unbiased variance is `variance`
  // * observations / (observations - 1), or `variance` if there is only one
  // observation.
  virtual void StatisticsGradient(const StatisticsGradientArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_BATCH_NORM_OPS_H_
