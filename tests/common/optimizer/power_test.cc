#include "common/optimizer/power.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(PowerTest, IsExactWhereTheResultIs) {
  EXPECT_EQ(Power(0.5, 0), 1);
  EXPECT_EQ(Power(0, 0), 1);
  EXPECT_EQ(Power(0, 0.5), 0);
  EXPECT_EQ(Power(1, 1e300), 1);
  EXPECT_EQ(Power(0.5, 10), std::ldexp(1, -10));
  EXPECT_EQ(Power(0.25, 1.5), 0.125);
  EXPECT_EQ(Power(3, 5), 243);
  EXPECT_EQ(Power(0.5, 1e18), 0);
}

TEST(PowerTest, IsNearTheLibrarysPower) {
  for (const double base : {1e-300, 1e-9, 0.1, 0.3, 0.9, 0.999999, 1.0, 7.0}) {
    for (const double exponent :
         {1e-300, 1e-5, 0.1, 0.5, 0.7, 1.0, 1.7, 2.0, 3.25, 10.1, 99.999}) {
      const double expected = std::pow(base, exponent);
      EXPECT_NEAR(Power(base, exponent), expected, 1e-13 * expected)
          << base << "^" << exponent;
    }
  }
}

}  // namespace
}  // namespace tributary
