// Biases and their gradients.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BIAS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BIAS_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/scratch.h"

namespace tributary::cuda {

// In all functions, T is the representation of Real: float or Bfloat16.

// y[r, c] += bias[c]; y: [rows, width].
template <typename T>
void AddToRows(Stream& stream, int64_t rows, int64_t width, const float* bias,
               T* y);
// sums[c] = sum over r of x[r, c]; x: [rows, width]. `scratch` is overwritten.
template <typename T>
void ColumnSums(Stream& stream, Scratch& scratch, int64_t rows, int64_t width,
                const T* x, float* sums);

// y[b, c, p] += bias[c]; y: [batch, channels, plane].
template <typename T>
void AddToPlanes(Stream& stream, int64_t batch, int64_t channels, int64_t plane,
                 const float* bias, T* y);
// sums[c] = sum over b and p of x[b, c, p]; x: [batch, channels, plane].
// `scratch` is overwritten.
template <typename T>
void ChannelSums(Stream& stream, Scratch& scratch, int64_t batch,
                 int64_t channels, int64_t plane, const T* x, float* sums);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BIAS_H_
