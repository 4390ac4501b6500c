#include "worker/nn/layers/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tributary {
namespace {

const RandomStream kStream{1, RandomPurpose::kInitialization, 0, 3};

std::vector<float> InitialValues(const Initializer& initializer, int64_t size) {
  std::vector<float> values(size);
  InitializeValues(initializer, kStream, size, values.data());
  return values;
}

TEST(InitializerTest, ConstantIsEverywhere) {
  EXPECT_EQ(InitialValues(Initializer::Constant(0.5), 5),
            std::vector<float>({0.5f, 0.5f, 0.5f, 0.5f, 0.5f}));
}

TEST(InitializerTest, ARangeHasTheValuesOfTheWhole) {
  constexpr int64_t kSize = 11;
  for (const Initializer& initializer :
       {Initializer::Constant(0.5), Initializer::FanIn(16),
        Initializer::Normal(2)}) {
    const std::vector<float> whole = InitialValues(initializer, kSize);
    for (int64_t begin = 0; begin < kSize; ++begin) {
      for (int64_t end = begin; end <= kSize; ++end) {
        std::vector<float> wanted(kSize, -7);
        std::copy(whole.begin() + begin, whole.begin() + end,
                  wanted.begin() + begin);
        std::vector<float> values(kSize, -7);
        InitializeRange(initializer, kStream, begin, end, values.data());
        EXPECT_EQ(values, wanted) << begin << " to " << end;
      }
    }
  }
}

TEST(InitializerTest, UniformFillsItsRange) {
  const std::vector<float> values =
      InitialValues(Initializer::FanIn(16), 10000);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -0.25f);
  EXPECT_LT(*low, -0.249f);
  EXPECT_LT(*high, 0.25f);
  EXPECT_GT(*high, 0.249f);
}

TEST(InitializerTest, NormalHasItsMoments) {
  const std::vector<float> values =
      InitialValues(Initializer::Normal(0.02), 40000);
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  // Five standard errors: 0.02 / sqrt(40000) and 0.02 / sqrt(80000).
  EXPECT_NEAR(sum / 40000, 0, 5e-4);
  EXPECT_NEAR(std::sqrt(squares / 40000), 0.02, 3.6e-4);
}

TEST(InitializerTest, ValuesDependOnTheirPlaceNotOnTheSize) {
  const std::vector<float> few = InitialValues(Initializer::Normal(1), 7);
  const std::vector<float> many = InitialValues(Initializer::Normal(1), 100);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

}  // namespace
}  // namespace tributary
