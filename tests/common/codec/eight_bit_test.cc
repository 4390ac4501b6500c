#include "common/codec/eight_bit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int kSizes[] = {0, 1, 15, 16, 255, 256, 257, 1000, 5000};

std::vector<float> Normal(int64_t count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

// Of `values` themselves: nothing is added.
std::string Encode(float* values, int64_t count) {
  const std::vector<float> zeros(count);
  return EncodeEightBit(zeros.data(), values, count);
}

std::vector<float> Decoded(const std::string& payload, int64_t count) {
  std::vector<float> values(count);
  DecodeEightBit(payload, count, 0, count, values.data());
  return values;
}

TEST(EightBitTest, RoundsToTheNearestMultipleOfTheBlocksScale) {
  for (const int size : kSizes) {
    std::vector<float> before = Normal(size, 1);
    // Blocks differ in their range.
    for (int i = 0; i < size; ++i) before[i] *= std::pow(10.0f, i / 256 - 3);
    std::vector<float> values = before;
    const std::string payload = Encode(values.data(), size);
    const int blocks = (size + 255) / 256;
    ASSERT_EQ(payload.size(), 4 * blocks + size);
    ASSERT_TRUE(CheckEightBit(payload, size).ok());
    for (int i = 0; i < size; ++i) {
      const int block = i / 256;
      double largest = 0;
      for (int j = 256 * block; j < std::min(size, 256 * (block + 1)); ++j) {
        largest = std::max(largest, std::abs(double{before[j]}));
      }
      float scale;
      std::memcpy(&scale, &payload[4 * block], 4);
      ASSERT_FLOAT_EQ(scale, largest / 127);
      const auto integer = static_cast<int8_t>(payload[4 * blocks + i]);
      // Float32's error in value / scale, at most 127, is below 1e-4.
      ASSERT_LE(std::abs(integer - before[i] / (largest / 127)), 0.5001);
    }
  }
}

TEST(EightBitTest, WhatIsSentAndWhatIsLeftAddUpToWhatWasThere) {
  for (const int size : kSizes) {
    const std::vector<float> before = Normal(size, 2);
    std::vector<float> values = before;
    const std::string payload = Encode(values.data(), size);
    const std::vector<float> sent = Decoded(payload, size);
    AddEightBit(payload, values.data(), size);
    for (int i = 0; i < size; ++i) {
      ASSERT_NEAR(values[i], before[i], 1e-6 * std::abs(sent[i]) + 1e-7);
    }
  }
}

TEST(EightBitTest, SumsAndDifferencesAreEncodedLikeTheirValues) {
  for (const int size : kSizes) {
    const std::vector<float> x = Normal(size, 6), y = Normal(size, 7);
    std::vector<float> sum(size), difference(size);
    for (int i = 0; i < size; ++i) sum[i] = x[i] + y[i];
    for (int i = 0; i < size; ++i) difference[i] = y[i] - x[i];
    const std::string of_sum = Encode(sum.data(), size);
    std::vector<float> residual = y;
    EXPECT_EQ(EncodeEightBit(x.data(), residual.data(), size), of_sum);
    EXPECT_EQ(residual, sum);
    EXPECT_EQ(EncodeEightBitDifference(x.data(), y.data(), size),
              Encode(difference.data(), size));
  }
}

TEST(EightBitTest, FeedbackDeliversEverythingInTheEnd) {
  // Far below the scale that the large element makes.
  std::vector<float> values(256), total(256);
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    values[0] += 100;
    for (int i = 1; i < 256; ++i) values[i] += 0.01f;
    const std::string payload = Encode(values.data(), 256);
    AddEightBit(payload, total.data(), 256);
  }
  EXPECT_NEAR(total[0], 100 * kSteps, 1);
  for (int i = 1; i < 256; ++i) EXPECT_NEAR(total[i], 0.01 * kSteps, 0.5);
}

TEST(EightBitTest, DecodesAnyPart) {
  std::vector<float> values = Normal(1000, 3);
  // At an odd address, as in the middle of a message.
  const std::string payload = "x" + Encode(values.data(), 1000);
  const absl::string_view view = absl::string_view(payload).substr(1);
  const std::vector<float> all = Decoded(payload.substr(1), 1000);
  for (const auto& [begin, count] :
       {std::pair<int, int>{0, 0}, {0, 1}, {17, 600}, {255, 2}, {990, 10}}) {
    std::vector<float> part(count + 1, 7);
    DecodeEightBit(view, 1000, begin, count, part.data());
    for (int i = 0; i < count; ++i) EXPECT_EQ(part[i], all[begin + i]);
    EXPECT_EQ(part[count], 7);
  }
}

TEST(EightBitTest, TinyBlocksAreKeptForLater) {
  const std::vector<float> before(300, 1e-35f);
  std::vector<float> values = before;
  const std::string payload = Encode(values.data(), 300);
  EXPECT_EQ(values, before);
  EXPECT_EQ(Decoded(payload, 300), std::vector<float>(300, 0));
}

TEST(EightBitTest, WhatIsNotANumberShowsInItsBlock) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = Normal(512, 4);
    values[300] = bad;
    const std::string payload = Encode(values.data(), 512);
    EXPECT_TRUE(CheckEightBit(payload, 512).ok());
    const std::vector<float> decoded = Decoded(payload, 512);
    for (int i = 0; i < 512; ++i) EXPECT_EQ(std::isnan(decoded[i]), i >= 256);
  }
}

TEST(EightBitTest, RefusesPayloadsThatNoHonestPeerSends) {
  std::vector<float> values = Normal(300, 5);
  const std::string good = Encode(values.data(), 300);
  EXPECT_TRUE(CheckEightBit(good, 300).ok());
  EXPECT_THAT(CheckEightBit(good, 301).message(), HasSubstr("308 bytes"));
  EXPECT_THAT(CheckEightBit(good + "x", 300).message(), HasSubstr("309 bytes"));
  EXPECT_THAT(CheckEightBit("", 300).message(), HasSubstr("expected 308"));
  for (const float scale : {-1.0f, std::numeric_limits<float>::infinity()}) {
    std::string bad = good;
    std::memcpy(&bad[4], &scale, 4);
    EXPECT_THAT(CheckEightBit(bad, 300).message(), HasSubstr("of block 1"));
  }
}

}  // namespace
}  // namespace tributary
