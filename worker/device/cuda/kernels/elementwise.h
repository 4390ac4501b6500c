// Element-wise kernels that several groups of operations use. The output may be
// an input. T is float or Bfloat16.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/ops/real.h"

namespace tributary::cuda {

// Returns an error if this build contains no kernels for the calling thread's
// current GPU.
cudaError_t FindKernels();

// Computes to[i] = from[i] for i < count, rounded or widened to the type To.
template <typename From, typename To>
void Convert(Stream& stream, int64_t count, const From* from, To* to);

template <typename T>
void Add(Stream& stream, int64_t count, const T* x, T* y);  // y += x
// Sets *base to `value` when the stream reaches this operation. `base`, in GPU
// memory, is the offset that later kernels add to their random streams.
void SetRandomBase(Stream& stream, const RandomBase& value, RandomBase* base);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_ELEMENTWISE_H_
