// Biases and their gradients.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BIAS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BIAS_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/scratch.h"

namespace tributary::cuda {

// In all functions of this file, T is the type that represents Real: float or
// Bfloat16.

// Computes y[r, c] = x[r, c] + bias[c] for all rows r and columns c. `x` and
// `y` have the shape [rows, width] and may be the same array; `bias` has the
// shape [width].
template <typename T>
void AddToRows(Stream& stream, int64_t rows, int64_t width, const float* x,
               const float* bias, T* y);
// Computes sums[c] = sum over all rows r of x[r, c]. `x` has the shape [rows,
// width], and `sums` has the shape [width]. `scratch` is overwritten.
template <typename T>
void ColumnSums(Stream& stream, Scratch& scratch, int64_t rows, int64_t width,
                const T* x, float* sums);

// Computes y[b, c, p] += bias[c] for all images b, channels c and pixels p. `y`
// has the shape [batch, channels, plane], and `bias` has the shape [channels].
template <typename T>
void AddToPlanes(Stream& stream, int64_t batch, int64_t channels, int64_t plane,
                 const float* bias, T* y);
// Computes sums[c] = sum over all images b and pixels p of x[b, c, p]. `x` has
// the shape [batch, channels, plane], and `sums` has the shape [channels].
// `scratch` is overwritten.
template <typename T>
void ChannelSums(Stream& stream, Scratch& scratch, int64_t batch,
                 int64_t channels, int64_t plane, const T* x, float* sums);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BIAS_H_
