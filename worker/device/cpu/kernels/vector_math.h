// exp for vectorized loops: no branches, no tables, no calls.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_VECTOR_MATH_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_VECTOR_MATH_H_

#include <cstdint>
#include <cstring>

#include "common/numerics/simd.h"

namespace tributary::cpu {

// Returns exp(x), accurate to 2 units in the last place for x in [-87.3, 88.3].
// Below this range the result is 0 (the true value is subnormal). Above it the
// result is exp(88.3), which is finite, so that terms such as x / (1 + exp(x))
// need no special case. NaN yields NaN.
//
// Uses the range reduction of Cody and Waite ("Software Manual for the
// Elementary Functions", 1980): x = n ln 2 + r, |r| <= ln 2 / 2, with ln 2
// split into two parts so that n times the first is exact; then a Taylor
// polynomial of degree 7, whose remainder is below 2^-27.
TRIBUTARY_INLINE float Exp(float x) {
  const float clamped_above = x > 88.3f ? 88.3f : x;
  const float clamped = clamped_above < -87.3f ? -87.3f : clamped_above;
  // Adding 1.5 * 2^23 rounds to an integer n, which is then in the low bits of
  // `shifted`.
  const float shifted = clamped * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * (r * r) + r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  // (n + 127) << 23 is the bit pattern of the float 2^n. The shift discards the
  // bits of `bits` above n.
  const uint32_t power_bits = (static_cast<uint32_t>(bits) + 127u) << 23;
  float power;
  std::memcpy(&power, &power_bits, sizeof(power));
  const float result = p * power;
  return x < -87.3f ? 0.0f : result;
}

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_VECTOR_MATH_H_
