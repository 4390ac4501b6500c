// Convolutions with kernels of 3 x 3, using fewer multiplications than direct
// convolution (Winograd's algorithm).
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_WINOGRAD_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_WINOGRAD_H_

#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/ops/convolution_ops.h"

namespace tributary::cpu {

// Returns true if WinogradForward and WinogradBackwardInput support the shape:
// kernel 3, stride 1, padding 1.
bool TakesWinograd(const ConvolutionShape& shape);
// Returns true if WinogradForward and WinogradBackwardInput support the shape
// and are faster than direct convolution. This requires so many channels that
// the products take longer than the transformations, and a processor with AVX2
// but without AVX-512. With AVX-512, the direct convolutions of oneDNN are as
// fast.
bool SuitsWinograd(const ConvolutionShape& shape);

// Implements the minimal algorithm F(2x2, 3x3): 16 multiplications for four
// outputs, instead of 36 for direct convolution. Overlapping tiles of 4 x 4
// inputs are transformed, multiplied element by element with transformed
// kernels, summed over channels (16 matrix products), and transformed back.
// Source: Lavin and Gray, "Fast algorithms for convolutional neural networks"
// (2016). All transformations consist of additions and of multiplications by
// 1/2, so the rounding error is about the same as in direct convolution.
//
// Tensors have the layouts that ConvolutionOps describes; `bias` may be null;
// `scratch` is overwritten.
void WinogradForward(const ConvolutionShape& shape, const float* x,
                     const float* weight, const float* bias, Scratch& scratch,
                     float* y);
void WinogradBackwardInput(const ConvolutionShape& shape, const float* dy,
                           const float* weight, Scratch& scratch, float* dx);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_WINOGRAD_H_
