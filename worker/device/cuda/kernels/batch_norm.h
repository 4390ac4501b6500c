// Batch norm of each channel; formulas and shapes as in
// worker/device/ops/batch_norm_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BATCH_NORM_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BATCH_NORM_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/ops/batch_norm_ops.h"

namespace tributary::cuda {

// The functions of this file implement the methods of BatchNormOps. In all of
// them, T is the type that represents Real: float or Bfloat16.
template <typename T>
void BatchNormForward(Stream& stream, const BatchNormShape& shape, const T* x,
                      const float* scale, const float* shift, const T* residual,
                      T* y, float* mean, float* variance);
template <typename T>
void BatchNormEvaluate(Stream& stream, const BatchNormShape& shape, const T* x,
                       const float* scale, const float* shift,
                       const float* mean, const float* variance,
                       const T* residual, T* y);

template <typename T>
struct BatchNormGradients {
  T* dx = nullptr;          // Shape of x; may be dy, or null.
  float* dscale = nullptr;  // [channels]
  float* dshift = nullptr;  // [channels]
  T* dresidual = nullptr;   // Shape of x, or null.
};

template <typename T>
void BatchNormBackward(Stream& stream, const BatchNormShape& shape, const T* x,
                       const float* scale, const float* mean,
                       const float* variance, const T* y, const T* dy,
                       const BatchNormGradients<T>& gradients);

struct BatchStatistics {
  const float* mean;      // [channels]
  const float* variance;  // [channels]
};

void BatchNormStatisticsGradient(Stream& stream, int64_t channels,
                                 int64_t observations, int64_t sample_count,
                                 const BatchStatistics& micro_batch,
                                 const BatchStatistics& running, float* dmean,
                                 float* dvariance);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BATCH_NORM_H_
