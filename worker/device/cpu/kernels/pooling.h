// Pooling over [batch, channels, height, width]; formulas as in
// worker/device/ops/pooling_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_POOLING_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_POOLING_H_

#include <cstdint>

#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/ops/pooling_ops.h"

namespace tributary::cpu {

// Compute max pooling and its gradient. `scratch` is overwritten.
void MaxPoolForward(const PoolShape& shape, const float* x, Scratch& scratch,
                    float* y, int32_t* argmax);
void MaxPoolBackward(const PoolShape& shape, const float* dy,
                     const int32_t* argmax, Scratch& scratch, float* dx);
// Compute average pooling and its gradient.
void AveragePoolForward(const PoolShape& shape, const float* x, float* y);
void AveragePoolBackward(const PoolShape& shape, const float* dy, float* dx);

// Compute the mean of each plane (one channel of one image), and its gradient.
// x and dx have the shape [planes, pixels]; y and dy, [planes].
void GlobalAveragePoolForward(int64_t planes, int64_t pixels, const float* x,
                              float* y);
void GlobalAveragePoolBackward(int64_t planes, int64_t pixels, const float* dy,
                               float* dx);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_POOLING_H_
