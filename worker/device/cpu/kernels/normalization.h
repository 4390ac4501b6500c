// Layer norm over the last dimension; formulas as in
// worker/device/ops/layer_norm_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_NORMALIZATION_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_NORMALIZATION_H_

#include <cstdint>

namespace tributary::cpu {

// Normalizes each row of x, and writes the row's mean and inverse standard
// deviation. x and y have the shape [rows, width]; scale and shift, [width];
// mean and inverse_deviation, [rows]. Only shift may be null, which stands for
// zeros.
void LayerNormForward(int64_t rows, int64_t width, const float* x,
                      const float* scale, const float* shift, float epsilon,
                      float* y, float* mean, float* inverse_deviation);

// Computes the gradients of LayerNormForward. x, dy and dx have the shape
// [rows, width]; scale, dscale and dshift, [width]; mean and inverse_deviation,
// [rows]. dx and dshift may be null; a tensor that is null is not computed. If
// `accumulate` is true, adds to dx. dscale and dshift are summed in row order.
void LayerNormBackward(int64_t rows, int64_t width, const float* x,
                       const float* scale, const float* mean,
                       const float* inverse_deviation, const float* dy,
                       bool accumulate, float* dx, float* dscale,
                       float* dshift);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_NORMALIZATION_H_
