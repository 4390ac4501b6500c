#include "common/numerics/exponential.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tributary {
namespace {

// ln 2 in two parts. The first has 21 trailing zero bits, so its products with
// the exponents of doubles are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLog2E = 1.44269504088896340736;

// 1 / k!
constexpr double kFactors[] = {1.0,
                               1.0,
                               1.0 / 2,
                               1.0 / 6,
                               1.0 / 24,
                               1.0 / 120,
                               1.0 / 720,
                               1.0 / 5040,
                               1.0 / 40320,
                               1.0 / 362880,
                               1.0 / 3628800,
                               1.0 / 39916800,
                               1.0 / 479001600,
                               1.0 / 6227020800};

double PowerOfTwo(int exponent) {
  const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

// e^x = 2^n e^r with |r| <= ln(2) / 2, where the remainder of the series is
// below 2^-53.
double Exponential(double x) {
  if (x < -708) return 0;
  if (x > 709) return std::numeric_limits<double>::infinity();
  const double n = std::floor(x * kLog2E + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double series = kFactors[13];
  for (int k = 12; k >= 0; --k) series = series * r + kFactors[k];
  return series * PowerOfTwo(static_cast<int>(n));
}

// 2 atanh((m - 1) / (m + 1)) + e ln 2 with m in [sqrt(1/2), sqrt(2)). The
// remainder of the series is below 2^-53.
double NaturalLogarithm(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // Exact.
  if (mantissa < 0.70710678118654752440) {
    mantissa *= 2;
    --exponent;
  }
  const double t = (mantissa - 1) / (mantissa + 1);
  const double square = t * t;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return 2 * t * series + exponent * 0.69314718055994530942;
}

}  // namespace tributary
