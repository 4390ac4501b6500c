// Element-wise loops that several groups of operations use. The output may be
// an input.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_ELEMENTWISE_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "common/numerics/philox.h"

namespace tributary::cpu {

void Add(int64_t count, const float* x, float* y);  // y += x
void Scale(int64_t count, float factor, float* y);  // y *= factor

// Applies dropout: sets y[i] to x[i] / (1 - rate) or, with probability `rate`,
// to 0. Element i uses random number first + i of `stream`.
void Dropout(int64_t count, const RandomStream& stream, uint64_t first,
             float rate, const float* x, float* y);
// Sets factors[i], for each i < count, to the factor by which Dropout
// multiplies x[i] if the arguments are the same: 1 / (1 - rate) or 0.
void DropoutFactors(int64_t count, const RandomStream& stream, uint64_t first,
                    float rate, float* factors);

// Sets each row of y, [rows, width], to `bias`.
void FillRows(int64_t rows, int64_t width, const float* bias, float* y);
// Sets sums[c] to the sum of x[r, c] over all rows r, added in row order. x has
// the shape [rows, width].
void ColumnSums(int64_t rows, int64_t width, const float* x, float* sums);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_ELEMENTWISE_H_
