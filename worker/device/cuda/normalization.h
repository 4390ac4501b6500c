// Layer norm over the last dimension; formulas and shapes as in
// worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_NORMALIZATION_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_NORMALIZATION_H_

#include <cstdint>

#include "worker/device/cuda/scratch.h"
#include "worker/device/cuda/stream.h"

namespace tributary::cuda {

void LayerNormForward(Stream& stream, int64_t rows, int64_t width,
                      const float* x, const float* scale, const float* shift,
                      float* y, float* mean, float* inverse_deviation);

struct LayerNormGradients {
  bool accumulate = false;  // dx += ...
  float* dx = nullptr;      // [rows, width]
  float* dscale = nullptr;  // [width]
  float* dshift = nullptr;  // [width], or null.
};

// `scratch` is overwritten.
void LayerNormBackward(Stream& stream, Scratch& scratch, int64_t rows,
                       int64_t width, const float* x, const float* scale,
                       const float* mean, const float* inverse_deviation,
                       const float* dy, const LayerNormGradients& gradients);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_NORMALIZATION_H_
