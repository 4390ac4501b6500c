// exp and related functions that the compiler can vectorize: they contain no
// branches, table look-ups or calls.
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
  // Adding 1.5 * 2^23 rounds the product to an integer n, which is then in the
  // low bits of `shifted`.
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

// The density and the distribution function of the standard normal distribution
// at a point x.
struct NormalValues {
  float density;       // exp(-x^2 / 2) / sqrt(2 pi)
  float distribution;  // (1 + erf(x / sqrt(2))) / 2
};

// Returns the density and the distribution function at `x`. Their errors are a
// few units in the last place, but values below 1e-38 become 0. The
// distribution function for x < 0 is erfc(z) / 2 with z = |x| / sqrt(2), and
// erfc(z) = exp(-z^2) t P(t) with t = 1 / (1 + z / 2). P is a least-squares fit
// of degree 9 to erfc(z) exp(z^2) / t on [0, 9.5], with a relative error of
// 2e-8.
TRIBUTARY_INLINE NormalValues NormalAt(float x) {
  const float z = 0.7071067812f * (x < 0.0f ? -x : x);
  const float t = 1.0f / (1.0f + 0.5f * z);
  float p = 0.015109749510884285f;
  p = p * t - 0.13805653154850006f;
  p = p * t + 0.4623481333255768f;
  p = p * t - 0.712596595287323f;
  p = p * t + 0.4549037516117096f;
  p = p * t - 0.11535026878118515f;
  p = p * t + 0.23105798661708832f;
  p = p * t + 0.23754605650901794f;
  p = p * t + 0.28297895193099976f;
  p = p * t + 0.2820587754249573f;
  const float exponential = Exp(-0.5f * x * x);
  const float tail = 0.5f * (exponential * (t * p));
  return {0.3989422804f * exponential, x < 0.0f ? tail : 1.0f - tail};
}

// Returns tanh(x), accurate to a few units in the last place.
TRIBUTARY_INLINE float HyperbolicTangent(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float exponential = Exp(-2.0f * magnitude);
  const float large = (1.0f - exponential) / (1.0f + exponential);
  // Near 0, the result is computed with the Taylor series, because the
  // difference 1 - exponential loses digits there.
  const float s = x * x;
  float p = 21844.0f / 6081075;
  p = p * s - 1382.0f / 155925;
  p = p * s + 62.0f / 2835;
  p = p * s - 17.0f / 315;
  p = p * s + 2.0f / 15;
  p = p * s - 1.0f / 3;
  const float small = x + x * (s * p);
  return magnitude < 0.35f ? small : (x < 0.0f ? -large : large);
}

// Returns the logistic function 1 / (1 + exp(-x)), accurate to a few units in
// the last place for x > -87.3.
TRIBUTARY_INLINE float Logistic(float x) { return 1.0f / (1.0f + Exp(-x)); }

// Returns exp(x) - 1 for x <= 0, accurate to a few units in the last place.
TRIBUTARY_INLINE float ExpMinusOne(float x) {
  // Near 0, the result is computed with the Taylor series, because the
  // difference exp(x) - 1 loses digits there.
  float p = 1.0f / 40320;
  p = p * x + 1.0f / 5040;
  p = p * x + 1.0f / 720;
  p = p * x + 1.0f / 120;
  p = p * x + 1.0f / 24;
  p = p * x + 1.0f / 6;
  p = p * x + 0.5f;
  p = p * x + 1.0f;
  const float small = p * x;
  return x > -0.5f ? small : Exp(x) - 1.0f;
}

// Returns ln(1 + exp(x)), accurate to a few units in the last place for x >
// -87.3. Uses max(x, 0) + ln(1 + t), t = exp(-|x|), and ln(1 + t) = 2 artanh(z)
// with z = t / (2 + t), at most 1/3.
TRIBUTARY_INLINE float LogOnePlusExp(float x) {
  const float t = Exp(x < 0.0f ? x : -x);
  const float z = t / (2.0f + t);
  const float s = z * z;
  float p = 1.0f / 15;
  p = p * s + 1.0f / 13;
  p = p * s + 1.0f / 11;
  p = p * s + 1.0f / 9;
  p = p * s + 1.0f / 7;
  p = p * s + 1.0f / 5;
  p = p * s + 1.0f / 3;
  p = p * s + 1.0f;
  return (x > 0.0f ? x : 0.0f) + 2.0f * z * p;
}

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_VECTOR_MATH_H_
