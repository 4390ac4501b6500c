// Element-wise operations; shapes and formulas as in worker/device/device.h. In
// all of them the output may be an input.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_ELEMENTWISE_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "common/numerics/philox.h"

namespace tributary::cpu {

void Add(int64_t count, const float* x, float* y);  // y += x
void Scale(int64_t count, float factor, float* y);  // y *= factor
void ReluForward(int64_t count, const float* x, float* y);
void ReluBackward(int64_t count, const float* y, const float* dy, float* dx);
// 0.5 (1 + tanh(u)) equals the logistic function of 2 u, which keeps its
// relative precision where tanh(u) is near -1.
void GeluForward(int64_t count, const float* x, float* y);
void GeluBackward(int64_t count, const float* x, const float* dy, float* dx);

// Uses the numbers of the stream starting at number `first`.
void Dropout(int64_t count, const RandomStream& stream, uint64_t first,
             float rate, const float* x, float* y);
// Writes the factors that Dropout multiplies by: 1 / (1 - rate) or 0.
void DropoutFactors(int64_t count, const RandomStream& stream, uint64_t first,
                    float rate, float* factors);

// Sets each row of y, [rows, width], to `bias`.
void FillRows(int64_t rows, int64_t width, const float* bias, float* y);
// sums[c] = sum over rows of x[r, c], in row order.
void ColumnSums(int64_t rows, int64_t width, const float* x, float* sums);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_ELEMENTWISE_H_
