// Batch norm over [batch, channels, pixels]; formulas as in
// worker/device/ops/batch_norm_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_BATCH_NORM_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_BATCH_NORM_H_

#include <cstdint>

#include "worker/device/ops/batch_norm_ops.h"

namespace tributary::cpu {

inline constexpr float kBatchNormEpsilon = 1e-5f;

// BatchNormForward computes the mean and the variance of each channel, and
// normalizes with them; BatchNormEvaluate normalizes with the given mean and
// variance. x, residual and y have the shape [batch, channels, pixels]; all
// other tensors have the shape [channels]. Only residual may be null, which
// stands for zeros. Sums are computed over the pixels of one image at a time,
// then over the images in order.
void BatchNormForward(const BatchNormShape& shape, const float* x,
                      const float* scale, const float* shift,
                      const float* residual, float* y, float* mean,
                      float* variance);
void BatchNormEvaluate(const BatchNormShape& shape, const float* x,
                       const float* scale, const float* shift,
                       const float* mean, const float* variance,
                       const float* residual, float* y);

// Computes the gradients of BatchNormForward. x, y, dy, dx and dresidual have
// the shape [batch, channels, pixels]; all other tensors have the shape
// [channels]. dx may equal dy. dx and dresidual may be null; a tensor that is
// null is not computed.
void BatchNormBackward(const BatchNormShape& shape, const float* x,
                       const float* scale, const float* mean,
                       const float* variance, const float* y, const float* dy,
                       float* dx, float* dscale, float* dshift,
                       float* dresidual);

// Implements BatchNormOps::StatisticsGradient, which computes the values that
// stand in for gradients of the running statistics. All tensors have the shape
// [channels].
void BatchNormStatisticsGradient(int64_t channels, int64_t observations,
                                 int64_t sample_count, const float* mean,
                                 const float* variance,
                                 const float* running_mean,
                                 const float* running_variance, float* dmean,
                                 float* dvariance);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_BATCH_NORM_H_
