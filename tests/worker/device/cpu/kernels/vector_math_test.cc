#include "worker/device/cpu/kernels/vector_math.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace tributary::cpu {
namespace {

// In units of the last place of the exact value's float.
double ErrorInUnits(float actual, double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::abs(actual - exact) / std::ldexp(1.0, exponent - 24);
}

TEST(ExpTest, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  // A million numbers over the whole range, and as many near 0.
  for (int i = -1000000; i <= 1000000; ++i) {
    for (float x :
         {static_cast<float>(i) * 8.73e-5f, static_cast<float>(i) * 1e-6f}) {
      worst = std::max(worst, ErrorInUnits(Exp(x), std::exp(double{x})));
    }
  }
  EXPECT_LE(worst, 2.0);
}

TEST(ExpTest, IsExactAtZero) { EXPECT_EQ(Exp(0.0f), 1.0f); }

TEST(ExpTest, IsZeroBelowTheSmallestNormalNumber) {
  EXPECT_EQ(Exp(-87.4f), 0.0f);
  EXPECT_EQ(Exp(-1e30f), 0.0f);
  EXPECT_EQ(Exp(-std::numeric_limits<float>::infinity()), 0.0f);
}

TEST(ExpTest, StaysFiniteAboveTheLargestNumber) {
  for (float x :
       {88.3f, 89.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_TRUE(std::isfinite(Exp(x))) << x;
    EXPECT_NEAR(std::log(Exp(x)), 88.3, 1e-4) << x;
  }
}

TEST(ExpTest, KeepsNotANumber) {
  EXPECT_TRUE(std::isnan(Exp(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace tributary::cpu
