// Layer norm over the last dimension; formulas and shapes as in
// worker/device/ops/layer_norm_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_NORMALIZATION_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_NORMALIZATION_H_

#include <cstdint>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/scratch.h"

namespace tributary::cuda {

// The functions of this file implement the methods of LayerNormOps. In all of
// them, T is the type that represents Real: float or Bfloat16. `branch` and
// `shift` may be null, as in LayerNormOps; without `branch`, `sum` is not used.
template <typename T>
void LayerNormForward(Stream& stream, int64_t rows, int64_t width, const T* x,
                      const T* branch, T* sum, const float* scale,
                      const float* shift, float epsilon, T* y, float* mean,
                      float* inverse_deviation);

template <typename T>
struct LayerNormGradients {
  bool accumulate = false;  // True to add to dx.
  T* dx = nullptr;          // [rows, width], or null.
  float* dscale = nullptr;  // [width]
  float* dshift = nullptr;  // [width], or null.
};

// Computes the gradients of LayerNormForward, and writes them to `gradients`.
// `scratch` is overwritten.
template <typename T>
void LayerNormBackward(Stream& stream, Scratch& scratch, int64_t rows,
                       int64_t width, const T* x, const float* scale,
                       const float* mean, const float* inverse_deviation,
                       const T* dy, const LayerNormGradients<T>& gradients);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_NORMALIZATION_H_
