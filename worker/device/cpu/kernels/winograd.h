// Convolutions of 3 x 3 with fewer multiplications.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_WINOGRAD_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_WINOGRAD_H_

#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/device.h"

namespace tributary::cpu {

// Whether the functions here take the shape: kernel 3, stride 1, padding 1.
bool TakesWinograd(const ConvolutionShape& shape);
// Whether besides they are worth it: there are so many channels that products,
// not transformations, take the time, and the processor has AVX2 but not
// AVX-512, with which the libraries' definition is as fast.
bool SuitsWinograd(const ConvolutionShape& shape);

// The minimal algorithm F(2x2, 3x3): 16 multiplications for four outputs, where
// the definition takes 36. Tiles of 4 x 4 inputs, which overlap, are
// transformed, multiplied with transformed kernels, element by element and
// summed over channels (16 matrix products), and transformed back. Source:
// Lavin and Gray, "Fast algorithms for convolutional neural networks" (2016).
// All transformations are sums and halves, so the rounding is about that of the
// definition.
//
// Tensors are those of Device; `bias` may be null; `scratch` is overwritten.
void WinogradForward(const ConvolutionShape& shape, const float* x,
                     const float* weight, const float* bias, Scratch& scratch,
                     float* y);
void WinogradBackwardInput(const ConvolutionShape& shape, const float* dy,
                           const float* weight, Scratch& scratch, float* dx);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_WINOGRAD_H_
