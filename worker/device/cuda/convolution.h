// Convolution by cuDNN; formulas and shapes as in worker/device/device.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CONVOLUTION_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CONVOLUTION_H_

#include <cstdint>
#include <memory>

#include "common/cuda/stream.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/device.h"

namespace tributary::cuda {

// Float32, without TF32 unless made with kTf32, or bfloat16 with sums in
// float32, by algorithms that are deterministic and sum products directly:
// transforming ones (Winograd, FFT) round differently in every part of an
// image. Chosen once for each shape by the library's heuristic. The first
// operation loads cuDNN, so that models without convolutions do not pay for it.
// One thread at a time. `scratch` is overwritten. Biases are not included: see
// bias.h. Gradients of weights are made in float32 throughout: cuDNN would
// round them to bfloat16.
class ConvolutionRunner {
 public:
  static std::unique_ptr<ConvolutionRunner> Create(Precision precision);

  virtual ~ConvolutionRunner() = default;

  // As Scratch's, of all the memory that it keeps for itself.
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
