// Element-wise operations; shapes and formulas as in worker/device/device.h. In
// all of them the output may be an input. T is float or Bfloat16.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/stream.h"
#include "common/numerics/philox.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/device.h"

namespace tributary::cuda {

// Returns an error if this build has no code for the calling thread's current
// GPU.
cudaError_t FindKernels();

// to = from, rounded or widened.
template <typename From, typename To>
void Convert(Stream& stream, int64_t count, const From* from, To* to);

template <typename T>
void Add(Stream& stream, int64_t count, const T* x, T* y);  // y += x
template <typename T>
void ReluForward(Stream& stream, int64_t count, const T* x, T* y);
template <typename T>
void ReluBackward(Stream& stream, int64_t count, const T* y, const T* dy,
                  T* dx);
template <typename T>
void GeluForward(Stream& stream, int64_t count, const T* x, T* y);
template <typename T>
void GeluBackward(Stream& stream, int64_t count, const T* x, const T* dy,
                  T* dx);
// `base`, in GPU memory, is read when the kernel runs.
template <typename T>
void Dropout(Stream& stream, int64_t count, const RandomStream& numbers,
             const RandomBase* base, float rate, const T* x, T* y);
void SetRandomBase(Stream& stream, const RandomBase& value, RandomBase* base);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_
