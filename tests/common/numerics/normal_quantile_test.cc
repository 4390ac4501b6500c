#include "common/numerics/normal_quantile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tributary {
namespace {

TEST(NormalQuantileTest, InvertsTheDistribution) {
  for (const uint32_t bits :
       {0u, 1u, 1000u, 123456789u, 0x13333333u, 0x7fffffffu, 0x80000000u,
        0xeccccccdu, 0xfffffff0u, 0xffffffffu}) {
    const double probability = (bits + 0.5) * 0x1p-32;
    const double value = NormalQuantile(bits);
    // erfc keeps relative precision in the lower tail, so compare there.
    const double tail = std::min(probability, 1 - probability);
    EXPECT_NEAR(0.5 * std::erfc(std::abs(value) / std::sqrt(2.0)), tail,
                1e-12 * tail)
        << bits;
    EXPECT_EQ(value < 0, probability < 0.5) << bits;
  }
}

TEST(NormalQuantileTest, HasTheSameBitsEverywhere) {
  // Regression values: they may only change with the version of the format.
  const auto bits_of = [](double value) {
    const float rounded = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &rounded, sizeof(bits));
    return bits;
  };
  EXPECT_EQ(bits_of(NormalQuantile(0)), 0xc0cad08du);
  EXPECT_EQ(bits_of(NormalQuantile(0x40000000u)), 0xbf2cab5cu);
  EXPECT_EQ(bits_of(NormalQuantile(0x90000000u)), 0x3e21160du);
}

}  // namespace
}  // namespace tributary
