// Sums and maxima over a row. They are inlined into functions that are compiled
// for several instruction sets. The order of additions is the same in all of
// them: sixteen partial sums, which simd::Sum adds.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_REDUCTIONS_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_REDUCTIONS_H_

#include <cstdint>

#include "common/numerics/simd.h"
#include "worker/device/cpu/kernels/vector_math.h"

namespace tributary::cpu {

// Returns the maximum of x[0, count). Requires count >= 1 and no NaNs.
TRIBUTARY_INLINE float RowMaximum(int64_t count, const float* x) {
  float lanes[simd::kLanes];
  for (int j = 0; j < simd::kLanes; ++j) lanes[j] = x[0];
  int64_t i = 0;
  for (; i + simd::kLanes <= count; i += simd::kLanes) {
    for (int j = 0; j < simd::kLanes; ++j) {
      lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
    }
  }
  for (; i < count; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  float maximum = lanes[0];
  for (int j = 1; j < simd::kLanes; ++j) {
    maximum = lanes[j] > maximum ? lanes[j] : maximum;
  }
  return maximum;
}

// Returns the sum of x[0, count).
TRIBUTARY_INLINE float RowSum(int64_t count, const float* x) {
  simd::Lanes sum = {};
  int64_t i = 0;
  for (; i + simd::kLanes <= count; i += simd::kLanes) sum += simd::Load(x + i);
  float rest = 0;
  for (; i < count; ++i) rest += x[i];
  return simd::Sum(sum) + rest;
}

// Returns the sum of x[i] * y[i] over i < count.
TRIBUTARY_INLINE float RowDot(int64_t count, const float* x, const float* y) {
  simd::Lanes sum = {};
  int64_t i = 0;
  for (; i + simd::kLanes <= count; i += simd::kLanes) {
    sum += simd::Load(x + i) * simd::Load(y + i);
  }
  float rest = 0;
  for (; i < count; ++i) rest += x[i] * y[i];
  return simd::Sum(sum) + rest;
}

// Computes y[i] = exp(x[i] - shift) for i < count; y may be x. Returns the sum
// of y.
TRIBUTARY_INLINE float RowExp(int64_t count, float shift, const float* x,
                              float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = Exp(x[i] - shift);
  return RowSum(count, y);
}

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_REDUCTIONS_H_
