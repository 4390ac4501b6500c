#include "worker/data/clicks/click_generator.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace tributary {
namespace {

using testing::ElementsAre;

ClicksSpec Spec(double scale, double exponent, uint64_t seed) {
  ClicksSpec spec;
  spec.set_scale(scale);
  spec.set_exponent(exponent);
  spec.set_seed(seed);
  return spec;
}

// The probability that a random click has a higher prediction than a random
// sample without click.
double Auc(std::vector<std::pair<double, int32_t>> predictions) {
  std::sort(predictions.begin(), predictions.end());
  double below = 0;
  double clicks = 0;
  double pairs = 0;
  for (const auto& [probability, label] : predictions) {
    if (label == 1) {
      ++clicks;
      pairs += below;
    } else {
      ++below;
    }
  }
  return pairs / (clicks * below);
}

TEST(ClickGeneratorTest, AQuarterAreClicksAndTheTeachersAucIsKnown) {
  for (const ClicksSpec& spec : {Spec(1, 1.05, 1), Spec(0.0001, 1.05, 2),
                                 Spec(1, 0, 3), Spec(0.01, 2, 4)}) {
    SCOPED_TRACE(spec.ShortDebugString());
    const ClickGenerator generator(spec);
    constexpr int kSamples = 30000;
    std::vector<std::pair<double, int32_t>> predictions;
    double clicks = 0;
    double expected = 0;
    for (int i = 0; i < kSamples; ++i) {
      const GeneratedClick click = generator.Sample(/*held_out=*/true, i);
      predictions.emplace_back(click.probability, click.label);
      clicks += click.label;
      expected += click.probability;
    }
    EXPECT_NEAR(clicks / kSamples, 0.25, 0.015);
    EXPECT_NEAR(Auc(predictions), 0.80, 0.015);
    // Four standard deviations of the number of clicks.
    EXPECT_NEAR(clicks, expected, 4 * std::sqrt(0.19 * kSamples));
  }
}

TEST(ClickGeneratorTest, NumbersAndCategoriesAreInRange) {
  const ClickGenerator generator(Spec(0.001, 0, 1));
  std::vector<int64_t> most(kCriteoCategories);
  for (int i = 0; i < 20000; ++i) {
    const GeneratedClick click = generator.Sample(/*held_out=*/false, i);
    for (int k = 0; k < kCriteoNumbers; ++k) {
      ASSERT_GE(click.numbers[k], 0);
      ASSERT_NEAR(click.features[k], std::log1p(click.numbers[k]), 1e-5);
    }
    for (int k = 0; k < kCriteoCategories; ++k) {
      ASSERT_GE(click.categories[k], 1);
      most[k] = std::max(most[k], click.categories[k]);
    }
  }
  EXPECT_EQ(most[0], 3);  // At least 3, instead of 1.46.
  EXPECT_GT(most[2], 10000);
  EXPECT_LE(most[2], 10131);
}

TEST(ClickGeneratorTest, SamplesDependOnSeedPartAndIndexOnly) {
  const ClickGenerator generator(Spec(1, 1.05, 1));
  const auto categories = [](const ClickGenerator& from, bool held_out,
                             int64_t index) {
    return from.Sample(held_out, index).categories;
  };
  const auto base = categories(generator, false, 5);
  EXPECT_EQ(categories(ClickGenerator(Spec(1, 1.05, 1)), false, 5), base);
  EXPECT_NE(categories(ClickGenerator(Spec(1, 1.05, 2)), false, 5), base);
  EXPECT_NE(categories(generator, true, 5), base);
  EXPECT_NE(categories(generator, false, 6), base);
}

// The expected values are those of a program in Python, which follows DATA.md
// with exact sums of Zipf's law and the functions of the C library.
TEST(ClickGeneratorTest, HasTheDocumentedSamples) {
  const ClickGenerator generator((ClicksSpec()));
  GeneratedClick click = generator.Sample(/*held_out=*/false, 1);
  EXPECT_THAT(click.numbers,
              ElementsAre(8, 6, 10, 8, 15951, 157, 2, 9, 11, 0, 3, 0, 0));
  EXPECT_THAT(click.categories,
              ElementsAre(5, 1, 1766, 84, 1, 1, 2510, 1, 1, 4378, 141, 1, 25, 2,
                          140, 3, 4, 186, 16, 4, 1, 5, 12, 7220, 1, 67));
  EXPECT_NEAR(click.probability, 0.2349177, 1e-6);
  EXPECT_EQ(click.label, 1);
  click = generator.Sample(/*held_out=*/true, 2);
  EXPECT_THAT(click.numbers,
              ElementsAre(0, 0, 5, 4, 26471, 585, 3, 7, 18, 0, 2, 0, 2));
  EXPECT_THAT(
      click.categories,
      ElementsAre(134, 525, 8228631, 7, 3, 4, 143, 57, 2, 17649, 214, 3171357,
                  1, 1, 5, 5, 4, 5266, 51, 3, 1, 1, 3, 14070, 11, 178));
  EXPECT_NEAR(click.probability, 0.207298, 1e-6);
  EXPECT_EQ(click.label, 0);
}

TEST(ClickGeneratorTest, ProbabilitiesHaveTheSameBitsEverywhere) {
  // A regression value: it may only change with the definition in DATA.md.
  const ClickGenerator generator((ClicksSpec()));
  EXPECT_EQ(generator.Sample(/*held_out=*/false, 1).probability,
            0.23491817130820752);
}

}  // namespace
}  // namespace tributary
