// The loops of vector_ops.h, compiled once for each instruction set. Internal
// to //common/numerics:vector_ops and its test.
#ifndef TRIBUTARY_COMMON_NUMERICS_VECTOR_KERNELS_H_
#define TRIBUTARY_COMMON_NUMERICS_VECTOR_KERNELS_H_

#include <cstdint>

#include "common/numerics/simd.h"

namespace tributary::vector_kernels {

TRIBUTARY_INLINE void AddInto(const float* __restrict x, float* __restrict sum,
                              int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += x[i];
}

TRIBUTARY_INLINE void Sum2(const float* __restrict a, const float* __restrict b,
                           float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

TRIBUTARY_INLINE void Subtract(const float* __restrict a,
                               const float* __restrict b, float* __restrict out,
                               int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] - b[i];
}

// Adds the squares of x(i), for i < count, to 16 partial sums: the square with
// index i to partial sum i % 16. Double precision represents the square of a
// float exactly, so a fused multiply-add gives the same result.
template <typename Value>
TRIBUTARY_INLINE void AddSquares(const Value x, int64_t count,
                                 double* __restrict sums) {
  double lanes[16];
  for (int lane = 0; lane < 16; ++lane) lanes[lane] = sums[lane];
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int lane = 0; lane < 16; ++lane) {
      const double value = x(i + lane);
      lanes[lane] += value * value;
    }
  }
  for (int lane = 0; lane < 16; ++lane) sums[lane] = lanes[lane];
  for (int lane = 0; i < count; ++i, ++lane) {
    const double value = x(i);
    sums[lane] += value * value;
  }
}

// Returns the sum of 16 partial sums, adding neighbours first.
TRIBUTARY_INLINE double AddPairwise(const double* sums) {
  double lanes[16];
  for (int lane = 0; lane < 16; ++lane) lanes[lane] = sums[lane];
  for (int width = 1; width < 16; width *= 2) {
    for (int lane = 0; lane < 16; lane += 2 * width) {
      lanes[lane] += lanes[lane + width];
    }
  }
  return lanes[0];
}

}  // namespace tributary::vector_kernels

#endif  // TRIBUTARY_COMMON_NUMERICS_VECTOR_KERNELS_H_
