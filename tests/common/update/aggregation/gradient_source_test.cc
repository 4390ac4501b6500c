#include "common/update/aggregation/gradient_source.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

// 1 + 2^-10 is not a bfloat16; the nearest is 1.
constexpr float kBetween = 1.0009765625f;

TEST(GradientInMemoryTest, ReadsInPlaceWhereNothingIsRounded) {
  const auto values = std::make_shared<std::vector<float>>(3, kBetween);
  const GradientInMemory gradient(MemoryView{values->data(), values});
  EXPECT_EQ(values.use_count(), 2);
  EXPECT_EQ(gradient.Read(1, 2, nullptr), values->data() + 1);
  EXPECT_EQ(gradient.memory().values, values->data());
}

TEST(GradientInMemoryTest, RoundsWhereItIsRead) {
  const auto values = std::make_shared<std::vector<float>>(3, kBetween);
  const GradientInMemory gradient(MemoryView{values->data(), values},
                                  ExchangeSpec::BFLOAT16);
  std::vector<float> scratch(2);
  EXPECT_EQ(gradient.Read(1, 2, scratch.data()), scratch.data());
  EXPECT_THAT(scratch, ElementsAre(1, 1));
  // Bare leaves are not rounded yet.
  EXPECT_EQ(gradient.memory().values, values->data());
  EXPECT_EQ((*values)[0], kBetween);
}

}  // namespace
}  // namespace tributary
