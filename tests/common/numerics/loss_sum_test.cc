#include "common/numerics/loss_sum.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(LossSumTest, AddsKnownSums) {
  LossSum sum = 1.5;
  sum += 2;
  EXPECT_EQ((sum + LossSum(0.25)).value(), 3.75);
  EXPECT_EQ(LossSum().value(), 0);
}

TEST(LossSumTest, IsUnknownIfASummandIs) {
  EXPECT_EQ((LossSum(1) + LossSum::Unknown()).value(), std::nullopt);
  EXPECT_EQ((LossSum::Unknown() + LossSum(1)).value(), std::nullopt);
  LossSum sum = 1;
  sum += LossSum::Unknown();
  EXPECT_EQ(sum.value(), std::nullopt);
}

TEST(LossSumTest, ANanIsKnownWhateverItsBits) {
  double all_ones = 0;
  std::memset(&all_ones, 0xff, sizeof(all_ones));
  for (const double nan :
       {all_ones, std::numeric_limits<double>::quiet_NaN(), std::nan("7")}) {
    const LossSum sum = LossSum(nan) + LossSum(1);
    ASSERT_TRUE(sum.value().has_value());
    EXPECT_TRUE(std::isnan(*sum.value()));
  }
}

}  // namespace
}  // namespace tributary
