#include "common/parameters/gradient_squares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tributary {
namespace {

constexpr int64_t kCount = 160;

// Statistics in [16, 37), with a gap up to 48, and [96, 128).
std::vector<ChunkSegment> Segments() {
  return {{0, 16, DECAY},
          {16, 37, STATISTICS},
          {48, 96, NO_DECAY},
          {96, 128, STATISTICS},
          {128, kCount, DECAY}};
}

bool IsStatistic(int64_t i) {
  return (i >= 16 && i < 37) || (i >= 96 && i < 128);
}
bool IsGap(int64_t i) { return i >= 37 && i < 48; }

std::vector<float> Random(int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    values[i] = IsGap(i) ? 0 : distribution(generator);
  }
  return values;
}

double TotalInPieces(const std::vector<ChunkSegment>& segments,
                     const float* half, const float* other_half,
                     int64_t piece) {
  GradientSquares squares(segments);
  for (int64_t begin = 0; begin < kCount; begin += piece) {
    squares.Add(half + begin,
                other_half == nullptr ? nullptr : other_half + begin,
                std::min(piece, kCount - begin));
  }
  return squares.Total();
}

TEST(GradientSquaresTest, AreThoseOfTheWholeArenaWithoutStatistics) {
  const std::vector<float> x = Random(1);
  for (const std::vector<ChunkSegment>& segments :
       {std::vector<ChunkSegment>(),
        std::vector<ChunkSegment>{{0, 37, DECAY}, {48, kCount, NO_DECAY}}}) {
    for (const int64_t piece : {16, 48, 160}) {
      EXPECT_EQ(TotalInPieces(segments, x.data(), nullptr, piece),
                SumOfSquares(x.data(), kCount));
    }
  }
}

// Three blocks, of which the last is shorter, with statistics in the first two.
TEST(GradientSquaresTest, AreThoseOfBlocksAddedInOrder) {
  constexpr int64_t kMany = 2 * kSquareBlock + 48;
  const std::vector<ChunkSegment> segments = {
      {0, 1008, DECAY}, {1008, 1040, STATISTICS}, {1040, kMany, NO_DECAY}};
  std::mt19937 generator(1);
  std::normal_distribution<float> distribution;
  std::vector<float> x(kMany), counted;
  for (float& value : x) value = distribution(generator);
  counted = x;
  std::fill(counted.begin() + 1008, counted.begin() + 1040, 0.f);
  double expected = 0;
  std::vector<BlockSquares> blocks;
  for (int64_t begin = 0; begin < kMany; begin += kSquareBlock) {
    blocks.push_back({SumOfSquares(
        &counted[begin], std::min<int64_t>(kSquareBlock, kMany - begin))});
    expected += blocks.back().gradients;
  }
  for (const int64_t piece : {int64_t{16}, int64_t{1008}, kMany}) {
    GradientSquares squares(segments);
    for (int64_t begin = 0; begin < kMany; begin += piece) {
      squares.Add(&x[begin], nullptr, std::min(piece, kMany - begin));
    }
    EXPECT_EQ(squares.Total(), expected);
  }
  EXPECT_EQ(GradientSquares::TotalOf(blocks), expected);
  // Blocks round differently than the sum over everything.
  EXPECT_NE(expected, SumOfSquares(counted.data(), kMany));
  blocks[1].statistics = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(GradientSquares::TotalOf(blocks)));
}

TEST(GradientSquaresTest, CountStatisticsAsZero) {
  const std::vector<float> x = Random(1), y = Random(2);
  std::vector<float> sum(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    sum[i] = IsStatistic(i) ? 0 : x[i] + y[i];
  }
  const double wanted = SumOfSquares(sum.data(), kCount);
  for (const int64_t piece : {16, 32, 48, 112, 160}) {
    EXPECT_EQ(TotalInPieces(Segments(), x.data(), y.data(), piece), wanted);
  }
}

TEST(GradientSquaresTest, AreNotANumberIfAnyElementIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), NAN}) {
    for (const int64_t at : {3, 20, 127, 159}) {
      std::vector<float> x = Random(1);
      x[at] = bad;
      EXPECT_FALSE(
          std::isfinite(TotalInPieces(Segments(), x.data(), nullptr, 32)));
    }
  }
}

TEST(GradientSquaresTest, TheNormIsThatOfTheMeanGradient) {
  EXPECT_EQ(MeanGradientNorm(36, 4), 1.5);
  EXPECT_EQ(MeanGradientNorm(36, 0), 6);
  EXPECT_TRUE(std::isnan(MeanGradientNorm(NAN, 4)));
}

}  // namespace
}  // namespace tributary
