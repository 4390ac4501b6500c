#include "common/numerics/exponential.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"

namespace tributary {
namespace {

uint64_t Bits64(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TEST(ExponentialTest, IsNearTheLibrarysFunction) {
  EXPECT_EQ(Exponential(0), 1);
  for (double x = -707.3; x < 709; x += 0.377) {
    EXPECT_NEAR(Exponential(x), std::exp(x), 1e-14 * std::exp(x)) << x;
  }
}

TEST(ExponentialTest, OverflowsToInfinityAndUnderflowsToZero) {
  EXPECT_EQ(Exponential(-1e9), 0);
  EXPECT_EQ(Exponential(1e9), std::numeric_limits<double>::infinity());
}

TEST(NaturalLogarithmTest, IsNearTheLibrarysFunction) {
  EXPECT_EQ(NaturalLogarithm(1), 0);
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    EXPECT_NEAR(NaturalLogarithm(x), std::log(x),
                1e-14 * std::abs(std::log(x)) + 1e-300)
        << x;
  }
}

TEST(ExponentialTest, HasTheSameBitsEverywhere) {
  // Regression values: results of training depend on them.
  EXPECT_EQ(Bits64(Exponential(1.1)), 4613947199293019539u);
  EXPECT_EQ(Bits64(Exponential(-33.3)), 4390752744923045268u);
  EXPECT_EQ(Bits64(NaturalLogarithm(3)), 4607626529066517258u);
}

}  // namespace
}  // namespace tributary
