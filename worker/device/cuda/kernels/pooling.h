// Pooling over [batch, channels, height, width]; formulas as in
// worker/device/ops/pooling_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_POOLING_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_POOLING_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/ops/pooling_ops.h"

namespace tributary::cuda {

// The functions of this file implement the methods of PoolingOps. In all of
// them, T is the type that represents Real: float or Bfloat16.
template <typename T>
void MaxPoolForward(Stream& stream, const PoolShape& shape, const T* x, T* y,
                    int32_t* argmax);
template <typename T>
void MaxPoolBackward(Stream& stream, const PoolShape& shape, const T* dy,
                     const int32_t* argmax, T* dx);
template <typename T>
void AveragePoolForward(Stream& stream, const PoolShape& shape, const T* x,
                        T* y);
template <typename T>
void AveragePoolBackward(Stream& stream, const PoolShape& shape, const T* dy,
                         T* dx);
template <typename T>
void GlobalAveragePoolForward(Stream& stream, int64_t planes, int64_t pixels,
                              const T* x, T* y);
template <typename T>
void GlobalAveragePoolBackward(Stream& stream, int64_t planes, int64_t pixels,
                               const T* dy, T* dx);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_POOLING_H_
