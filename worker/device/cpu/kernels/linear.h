// Linear layers; formulas as in worker/device/ops/linear_ops.h.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_LINEAR_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_LINEAR_H_

#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/ops/linear_ops.h"

namespace tributary::cpu {

// Return true if LinearForward (for IsSkinnyForward) or LinearBackwardInput
// (for IsSkinnyBackwardInput) uses the functions of products/skinny_gemm.h for
// this shape. They are faster than Gemm for few rows and large weights.
bool IsSkinnyForward(const LinearShape& shape);
bool IsSkinnyBackwardInput(const LinearShape& shape);

// LinearForward computes y = x weight^T + bias; `bias` may be null; `scratch`
// is overwritten. LinearBackwardInput computes dx = dy weight. With
// `accumulate`, it adds the product to dx instead.
void LinearForward(const LinearShape& shape, const float* x,
                   const float* weight, const float* bias, Scratch& scratch,
                   float* y);
void LinearBackwardInput(const LinearShape& shape, const float* dy,
                         const float* weight, bool accumulate, float* dx);
// Computes dweight = dy^T x. With `accumulate`, adds the product to dweight
// instead. Sets dbias, unless it is null, to the column sums of dy, whether or
// not `accumulate` is set.
void LinearBackwardWeight(const LinearShape& shape, const float* x,
                          const float* dy, bool accumulate, float* dweight,
                          float* dbias);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_LINEAR_H_
