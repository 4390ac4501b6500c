// Batch norm of each channel; formulas and shapes as in worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_BATCH_NORM_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_BATCH_NORM_H_

#include <cstdint>

#include "worker/device/cuda/stream.h"
#include "worker/device/device.h"

namespace tributary::cuda {

void BatchNormForward(Stream& stream, const BatchNormShape& shape,
                      const float* x, const float* scale, const float* shift,
                      const float* residual, float* y, float* mean,
                      float* variance);
void BatchNormEvaluate(Stream& stream, const BatchNormShape& shape,
                       const float* x, const float* scale, const float* shift,
                       const float* mean, const float* variance,
                       const float* residual, float* y);

struct BatchNormGradients {
  float* dx = nullptr;         // Shape of x; may be dy.
  float* dscale = nullptr;     // [channels]
  float* dshift = nullptr;     // [channels]
  float* dresidual = nullptr;  // Shape of x, or null.
};

void BatchNormBackward(Stream& stream, const BatchNormShape& shape,
                       const float* x, const float* scale, const float* mean,
                       const float* variance, const float* y, const float* dy,
                       const BatchNormGradients& gradients);

struct BatchStatistics {
  const float* mean;      // [channels]
  const float* variance;  // [channels]
};

void BatchNormStatisticsGradient(Stream& stream, int64_t channels,
                                 int64_t observations, int64_t weight,
                                 const BatchStatistics& leaf,
                                 const BatchStatistics& running, float* dmean,
                                 float* dvariance);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_BATCH_NORM_H_
