// Operations on each element by itself; shapes and formulas as in
// worker/device/device.h. In all of them the output may be an input.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_ELEMENTWISE_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "common/philox.h"
#include "worker/device/cuda/stream.h"

namespace tributary::cuda {

// Whether this build has code for the calling thread's current GPU.
cudaError_t FindKernels();

void Add(Stream& stream, int64_t count, const float* x, float* y);  // y += x
void ReluForward(Stream& stream, int64_t count, const float* x, float* y);
void ReluBackward(Stream& stream, int64_t count, const float* y,
                  const float* dy, float* dx);
void GeluForward(Stream& stream, int64_t count, const float* x, float* y);
void GeluBackward(Stream& stream, int64_t count, const float* x,
                  const float* dy, float* dx);
void Dropout(Stream& stream, int64_t count, const RandomStream& numbers,
             float rate, const float* x, float* y);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_ELEMENTWISE_H_
