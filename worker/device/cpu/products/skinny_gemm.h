// Products of a matrix with few rows and a large matrix, which is read only
// once.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_SKINNY_GEMM_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_SKINNY_GEMM_H_

#include <cstdint>

#include "worker/device/cpu/products/bfloat16.h"

namespace tributary::cpu {

// The maximum number of rows of the matrices x and dy that the functions of
// this file accept. This is the number of float32 elements in the widest vector
// registers.
inline constexpr int64_t kSkinnyRows = 16;

// W, the type of the matrix w, is float or Bfloat16.
//
// Computes y[rows, outputs] = x[rows, inputs] w[outputs, inputs]^T. With
// `accumulate`, adds the product to y instead. `packed` is temporary memory of
// inputs * kSkinnyRows floats.
template <typename W>
void SkinnyForward(int64_t rows, int64_t inputs, int64_t outputs,
                   const float* x, const W* w, bool accumulate, float* y,
                   float* packed);

// Computes dx[rows, inputs] = dy[rows, outputs] w[outputs, inputs]. With
// `accumulate`, adds the product to dx instead.
template <typename W>
void SkinnyBackwardInput(int64_t rows, int64_t inputs, int64_t outputs,
                         const float* dy, const W* w, bool accumulate,
                         float* dx);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_SKINNY_GEMM_H_
