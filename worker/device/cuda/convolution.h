// Convolution using cuDNN; formulas and shapes as in worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CONVOLUTION_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CONVOLUTION_H_

#include <cstdint>
#include <memory>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/device.h"

namespace tributary::cuda {

// Computes in float32 (with TF32 only for kTf32) or in bfloat16 with sums in
// float32. Uses deterministic algorithms that sum products directly:
// transforming ones (Winograd, FFT) round differently in each part of an image.
// The library's heuristic chooses the algorithm once for each shape. The first
// operation loads cuDNN, so models without convolutions do not need it.
// `scratch` is overwritten. Biases are not included; see bias.h. Gradients of
// weights are float32 throughout, because cuDNN would round them to bfloat16.
// Not thread-safe.
class ConvolutionRunner {
 public:
  static std::unique_ptr<ConvolutionRunner> Create(Precision precision);

  virtual ~ConvolutionRunner() = default;

  // Like Scratch::growths, for all internal memory.
  virtual int64_t growths() const { return 0; }

  virtual void Forward(Stream& stream, Scratch& scratch,
                       const ConvolutionShape& shape, const Real* x,
                       const Real* weight, Real* y) = 0;
  virtual void BackwardInput(Stream& stream, Scratch& scratch,
                             const ConvolutionShape& shape, const Real* dy,
                             const Real* weight, Real* dx) = 0;
  virtual void BackwardWeight(Stream& stream, Scratch& scratch,
                              const ConvolutionShape& shape, const Real* x,
                              const Real* dy, float* dweight) = 0;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CONVOLUTION_H_
