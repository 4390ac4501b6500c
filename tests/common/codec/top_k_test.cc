#include "common/codec/top_k.h"

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

constexpr int64_t kChunk = 1 << 18;

std::vector<float> NormalValues(int64_t count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

// Of `values` themselves: nothing is added.
std::string EncodeValues(double fraction, float* values, int64_t count) {
  const std::vector<float> zeros(count);
  return EncodeTopK(fraction, zeros.data(), values, count);
}

struct Entry {
  uint32_t place;
  float value;
};

std::vector<Entry> Entries(const std::string& payload) {
  std::vector<Entry> entries(payload.size() / 8);
  for (size_t i = 0; i < entries.size(); ++i) {
    std::memcpy(&entries[i].place, &payload[4 * i], 4);
    std::memcpy(&entries[i].value, &payload[4 * (entries.size() + i)], 4);
  }
  return entries;
}

std::string Payload(const std::vector<Entry>& entries) {
  std::string payload(8 * entries.size(), 0);
  for (size_t i = 0; i < entries.size(); ++i) {
    std::memcpy(&payload[4 * i], &entries[i].place, 4);
    std::memcpy(&payload[4 * (entries.size() + i)], &entries[i].value, 4);
  }
  return payload;
}

// What a full sort chooses, of equal magnitudes the first.
std::vector<uint32_t> LargestPlaces(const std::vector<float>& values,
                                    int64_t wanted) {
  std::vector<uint32_t> places(values.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  std::stable_sort(places.begin(), places.end(), [&](uint32_t a, uint32_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  places.resize(wanted);
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<uint32_t> PlacesOf(const std::vector<Entry>& entries) {
  std::vector<uint32_t> places;
  for (const Entry& entry : entries) places.push_back(entry.place);
  return places;
}

TEST(TopKTest, CountIsTheFractionRoundedAndAtLeastOne) {
  EXPECT_EQ(TopKCount(0.01, 262144), 2621);
  EXPECT_EQ(TopKCount(0.01, 149), 1);
  EXPECT_EQ(TopKCount(0.01, 150), 2);
  EXPECT_EQ(TopKCount(1e-9, 16), 1);
  EXPECT_EQ(TopKCount(0.5, 16), 8);
  EXPECT_EQ(TopKCount(0.5, 0), 0);
}

// With fewer than 4,096 elements all are looked at.
TEST(TopKTest, OfFewElementsItChoosesExactlyTheLargest) {
  for (const int64_t count : {1, 2, 15, 16, 31, 32, 33, 100, 1000, 4095}) {
    for (const double fraction : {0.001, 0.01, 0.1, 0.5}) {
      const std::vector<float> before = NormalValues(count, 1);
      std::vector<float> values = before;
      const std::vector<Entry> entries =
          Entries(EncodeValues(fraction, values.data(), count));
      EXPECT_EQ(PlacesOf(entries),
                LargestPlaces(before, TopKCount(fraction, count)));
      for (const Entry& entry : entries) {
        EXPECT_EQ(entry.value, before[entry.place]);
      }
    }
  }
}

// Of many the threshold is estimated; the stated margin makes this exact but
// for about 1 of 100 chunks, and that one almost so.
TEST(TopKTest, OfManyElementsItChoosesTheLargestWithFewMissing) {
  int exact = 0;
  constexpr int kChunks = 12;
  for (int seed = 0; seed < kChunks; ++seed) {
    const double fraction = seed % 2 == 0 ? 0.01 : 0.1;
    std::vector<float> before = NormalValues(kChunk, seed);
    // Some with heavy tails, as gradients have them.
    if (seed % 4 < 2) {
      for (float& value : before) value = value * value * value;
    }
    std::vector<float> values = before;
    const int64_t wanted = TopKCount(fraction, kChunk);
    const std::vector<uint32_t> places =
        PlacesOf(Entries(EncodeValues(fraction, values.data(), kChunk)));
    ASSERT_LE(places.size(), wanted);
    ASSERT_GE(places.size(), 0.75 * wanted);
    // Whatever is chosen is the largest of all.
    ASSERT_EQ(places, LargestPlaces(before, places.size()));
    exact += static_cast<int64_t>(places.size()) == wanted;
  }
  EXPECT_GE(exact, kChunks - 1);
}

TEST(TopKTest, WhatIsSentAndWhatIsLeftAddUpToWhatWasThere) {
  const std::vector<float> before = NormalValues(kChunk, 3);
  std::vector<float> values = before;
  const std::string payload = EncodeValues(0.01, values.data(), kChunk);
  std::vector<float> sent(kChunk);
  DecodeTopK(payload, 0, kChunk, sent.data());
  for (int64_t i = 0; i < kChunk; ++i) {
    ASSERT_TRUE((sent[i] == before[i] && values[i] == 0) ||
                (sent[i] == 0 && values[i] == before[i]));
  }
  AddTopK(payload, values.data());
  EXPECT_EQ(values, before);
}

// With sizes around the blocks that are looked at together, and with so many
// equal elements that they do not all find room.
TEST(TopKTest, SumsAndDifferencesAreEncodedLikeTheirValues) {
  for (const int64_t count : {1, 63, 64, 65, 130, 5000, 100001}) {
    for (const bool equal : {false, true}) {
      const auto make = [&](int seed) {
        return equal ? std::vector<float>(count, seed)
                     : NormalValues(count, seed);
      };
      const std::vector<float> x = make(1), y = make(2);
      std::vector<float> sum(count), difference(count);
      for (int64_t i = 0; i < count; ++i) sum[i] = x[i] + y[i];
      for (int64_t i = 0; i < count; ++i) difference[i] = y[i] - x[i];
      const std::string of_sum = EncodeValues(0.02, sum.data(), count);
      std::vector<float> residual = y;
      EXPECT_EQ(EncodeTopK(0.02, x.data(), residual.data(), count), of_sum);
      EXPECT_EQ(residual, sum);
      EXPECT_EQ(EncodeTopKDifference(0.02, x.data(), y.data(), count),
                EncodeValues(0.02, difference.data(), count));
    }
  }
}

TEST(TopKTest, MatricesWithLargeColumnsDoNotDeceiveTheSample) {
  for (const int64_t width : {32, 64, 128, 256}) {
    std::vector<float> values = NormalValues(kChunk, 4);
    for (int64_t i = 0; i < kChunk; i += width) values[i] *= 100;
    const int64_t wanted = TopKCount(0.01, kChunk);
    const int64_t size =
        Entries(EncodeValues(0.01, values.data(), kChunk)).size();
    EXPECT_LE(size, wanted);
    EXPECT_GE(size, 0.75 * wanted) << width;
  }
}

TEST(TopKTest, EqualElementsTakeTurns) {
  constexpr int64_t kCount = 1 << 16;
  constexpr double kFraction = 0.1;
  std::vector<float> values(kCount), total(kCount);
  for (int step = 0; step < 10; ++step) {
    for (float& value : values) value += 1;
    const std::string payload = EncodeValues(kFraction, values.data(), kCount);
    EXPECT_EQ(Entries(payload).size(), TopKCount(kFraction, kCount));
    AddTopK(payload, total.data());
  }
  const int64_t never = std::count(total.begin(), total.end(), 0.0f);
  // The fraction's rounding leaves a few.
  EXPECT_LE(never, 10);
}

TEST(TopKTest, ZerosAreNotSent) {
  std::vector<float> values(kChunk);
  EXPECT_EQ(EncodeValues(0.01, values.data(), kChunk), "");
  values[77] = -1;
  values[kChunk - 1] = 1e-20f;
  EXPECT_EQ(PlacesOf(Entries(EncodeValues(0.01, values.data(), kChunk))),
            (std::vector<uint32_t>{77, kChunk - 1}));
  EXPECT_EQ(EncodeValues(0.01, values.data(), 0), "");
}

TEST(TopKTest, WhatIsNotANumberIsSentFirst) {
  std::vector<float> values = NormalValues(kChunk, 5);
  values[100] = std::numeric_limits<float>::quiet_NaN();
  values[200] = -std::numeric_limits<float>::infinity();
  const std::string payload = EncodeValues(1e-9, values.data(), kChunk);
  ASSERT_EQ(Entries(payload).size(), 1);
  EXPECT_EQ(Entries(payload)[0].place, 100);
  EXPECT_TRUE(std::isnan(Entries(payload)[0].value));
  EXPECT_EQ(values[100], 0);
  EXPECT_EQ(Entries(EncodeValues(1e-9, values.data(), kChunk))[0].place, 200);
}

TEST(TopKTest, DecodesAnyPart) {
  std::vector<float> values = NormalValues(1000, 6);
  const std::string payload = "x" + EncodeValues(0.2, values.data(), 1000);
  // At an odd address, as in the middle of a message.
  const absl::string_view view = absl::string_view(payload).substr(1);
  ASSERT_TRUE(CheckTopK(view, 1000).ok());
  std::vector<float> all(1000);
  DecodeTopK(view, 0, 1000, all.data());
  for (const auto& [begin, count] :
       {std::pair<int, int>{0, 0}, {0, 1}, {17, 100}, {990, 10}, {1000, 0}}) {
    std::vector<float> part(count + 1, 7);
    DecodeTopK(view, begin, count, part.data());
    for (int i = 0; i < count; ++i) EXPECT_EQ(part[i], all[begin + i]);
    EXPECT_EQ(part[count], 7);
    AddTopKPart(view, begin, count, part.data());
    for (int i = 0; i < count; ++i) EXPECT_EQ(part[i], 2 * all[begin + i]);
    EXPECT_EQ(part[count], 7);
  }
}

TEST(TopKTest, RefusesPayloadsThatNoHonestPeerSends) {
  const auto why = [](const std::string& payload) {
    return std::string(CheckTopK(payload, 10).message());
  };
  EXPECT_EQ(why(""), "");
  EXPECT_EQ(why(Payload({{0, 1}, {9, 1}})), "");
  EXPECT_THAT(why(std::string(12, 0)), HasSubstr("12 bytes"));
  EXPECT_THAT(why(std::string(88, 0)), HasSubstr("at most 80"));
  EXPECT_THAT(why(Payload({{10, 1}})), HasSubstr("place 10 of entry 0"));
  EXPECT_THAT(why(Payload({{3, 1}, {3, 1}})), HasSubstr("between 4 and 9"));
  EXPECT_THAT(why(Payload({{3, 1}, {2, 1}})), HasSubstr("place 2 of entry 1"));
  EXPECT_THAT(why(Payload({{0xffffffff, 1}})), HasSubstr("place 4294967295"));
  EXPECT_EQ(CheckTopK(std::string(12, 0), 10).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tributary
