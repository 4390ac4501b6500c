// Pooling over [batch, channels, height, width]; formulas as in
// worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_POOLING_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_POOLING_H_

#include <cstdint>

#include "worker/device/cuda/stream.h"
#include "worker/device/device.h"

namespace tributary::cuda {

void MaxPoolForward(Stream& stream, const PoolShape& shape, const float* x,
                    float* y, int32_t* argmax);
void MaxPoolBackward(Stream& stream, const PoolShape& shape, const float* dy,
                     const int32_t* argmax, float* dx);
void AveragePoolForward(Stream& stream, const PoolShape& shape, const float* x,
                        float* y);
void AveragePoolBackward(Stream& stream, const PoolShape& shape,
                         const float* dy, float* dx);
void GlobalAveragePoolForward(Stream& stream, int64_t planes, int64_t pixels,
                              const float* x, float* y);
void GlobalAveragePoolBackward(Stream& stream, int64_t planes, int64_t pixels,
                               const float* dy, float* dx);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_POOLING_H_
