#include "common/numerics/score_histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/numerics/philox.h"

namespace tributary {
namespace {

struct Sample {
  float score = 0;
  int label = 0;
};

// Logits near `offset` of samples that are positive with that probability.
std::vector<Sample> MakeSamples(int count, double offset, double spread) {
  const RandomStream stream{5, RandomPurpose::kSampleOrder, 0, 1};
  std::vector<Sample> samples;
  for (int i = 0; i < count; ++i) {
    const PhiloxBlock block = stream.Block(i);
    double normal = -6;
    for (int k = 0; k < 3; ++k) normal += 4.0 * UniformFloat(block[k]);
    const double logit = offset + spread * normal;
    const double probability = 1 / (1 + std::exp(-logit));
    samples.push_back({static_cast<float>(logit),
                       UniformFloat(block[3]) < probability ? 1 : 0});
  }
  return samples;
}

// Compares all pairs.
double ExactAuc(const std::vector<Sample>& samples) {
  double ordered = 0;
  double pairs = 0;
  for (const Sample& high : samples) {
    if (high.label == 0) continue;
    for (const Sample& low : samples) {
      if (low.label == 1) continue;
      pairs += 1;
      ordered += high.score > low.score ? 1 : high.score == low.score ? 0.5 : 0;
    }
  }
  return ordered / pairs;
}

ScoreHistogram HistogramOf(const std::vector<Sample>& samples) {
  ScoreHistogram histogram;
  for (const Sample& sample : samples) {
    histogram.Add(sample.score, sample.label);
  }
  return histogram;
}

TEST(ScoreHistogramTest, IsTheAucOfAllPairs) {
  for (const double offset : {-3.0, -0.1, 2.0}) {
    for (const double spread : {0.3, 1.0}) {
      const std::vector<Sample> samples = MakeSamples(4000, offset, spread);
      const double exact = ExactAuc(samples);
      EXPECT_GT(exact, 0.55);
      EXPECT_NEAR(HistogramOf(samples).Auc(), exact, 1e-5)
          << offset << " " << spread;
    }
  }
}

TEST(ScoreHistogramTest, TiesCountOneHalf) {
  ScoreHistogram histogram;
  for (const float score : {0.0f, -0.0f}) {
    histogram.Add(score, 1);
    histogram.Add(score, 0);
  }
  EXPECT_EQ(histogram.bins().size(), 1u);
  EXPECT_EQ(histogram.Auc(), 0.5);
  histogram.Add(1.0f, 1);
  EXPECT_DOUBLE_EQ(histogram.Auc(), 4.0 / 6);
}

TEST(ScoreHistogramTest, HasNoAucWithoutBothLabels) {
  EXPECT_EQ(ScoreHistogram().Auc(), 0.5);
  ScoreHistogram histogram;
  histogram.Add(2.0f, 1);
  EXPECT_EQ(histogram.Auc(), 0.5);
}

TEST(ScoreHistogramTest, BinsHaveTheOrderOfTheScores) {
  const float infinity = std::numeric_limits<float>::infinity();
  uint32_t last = 0;
  for (const float score : {-infinity, -1e30f, -2.0f, -1.0f, -1e-30f, 0.0f,
                            1e-30f, 1.0f, 2.0f, 1e30f, infinity}) {
    const uint32_t bin = ScoreHistogram::BinOf(score);
    EXPECT_GT(bin, last) << score;
    EXPECT_LT(bin, ScoreHistogram::kBins);
    last = bin;
  }
}

TEST(ScoreHistogramTest, SumsDoNotDependOnTheDivision) {
  const std::vector<Sample> samples = MakeSamples(1000, -1, 1);
  ScoreHistogram sum;
  for (const int part : {2, 0, 1}) {
    std::vector<Sample> own;
    for (size_t i = part; i < samples.size(); i += 3) own.push_back(samples[i]);
    const ScoreHistogram histogram = HistogramOf(own);
    for (const auto& [bin, counts] : histogram.bins()) sum.Add(bin, counts);
  }
  EXPECT_EQ(sum.Auc(), HistogramOf(samples).Auc());
}

}  // namespace
}  // namespace tributary
