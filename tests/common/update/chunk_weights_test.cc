#include "common/update/chunk_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/numerics/half.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// Not a multiple of a block of anything.
constexpr int64_t kElements = 1000;

// Of what streams get.
std::vector<float> DecodedFloats(const EncodedFloats& encoded) {
  std::vector<float> floats(kElements);
  if (encoded.encoding == FLOAT32) {
    EXPECT_EQ(encoded.bytes, 4 * kElements);
    std::memcpy(floats.data(), encoded.data, encoded.bytes);
  } else {
    EXPECT_EQ(encoded.bytes, 2 * kElements);
    DecodeHalf(DtypeOf(encoded.encoding), encoded.data, floats.data(),
               kElements);
  }
  return floats;
}

std::vector<float> Rounded(WireDtype dtype, std::vector<float> values) {
  RoundTo(dtype, values.data(), static_cast<int64_t>(values.size()));
  return values;
}

class ChunkWeightsTest : public ::testing::Test {
 protected:
  ChunkWeights Make(const ExchangeSpec& exchange) {
    exchange_ = exchange;
    ChunkWeights weights(&exchange_, kElements, &buffers_, &halves_);
    const Buffer initial = buffers_.Take();
    std::copy_n(Values(0).data(), kElements, initial.get());
    weights.Initialize(/*version=*/0, initial);
    return weights;
  }

  // The optimizer's values of a version.
  static std::vector<float> Values(int64_t version) {
    std::mt19937 generator(static_cast<unsigned>(version + 1));
    std::normal_distribution<float> distribution;
    std::vector<float> values(kElements);
    for (float& value : values) value = distribution(generator);
    return values;
  }

  static void Write(const std::vector<float>& values,
                    const ChunkWeights::Next& next) {
    std::copy(values.begin(), values.end(), next.values.get());
  }

  // Makes the next version, in blocks: in place and from elsewhere in turn.
  static void Advance(ChunkWeights* weights, const std::vector<float>& values,
                      bool for_streams = true) {
    ChunkWeights::Next next = weights->Begin(for_streams);
    bool in_place = false;
    for (int64_t begin = 0; begin < kElements; begin += 300) {
      const int64_t count = std::min<int64_t>(300, kElements - begin);
      const float* from = values.data() + begin;
      if (std::exchange(in_place, !in_place)) {
        from = std::copy_n(from, count, next.values.get() + begin) - count;
      }
      next.Write(begin, count, from);
    }
    weights->Complete(&next);
    weights->Finish(std::move(next));
  }

  ExchangeSpec exchange_;
  BufferPool buffers_{kElements};
  BufferPool halves_{kElements / 2};
};

ExchangeSpec WithDtype(WireDtype dtype) {
  ExchangeSpec exchange;
  exchange.set_wire_dtype(dtype);
  return exchange;
}

constexpr WireDtype kDtypes[] = {ExchangeSpec::FLOAT32, ExchangeSpec::BFLOAT16,
                                 ExchangeSpec::FLOAT16};

TEST_F(ChunkWeightsTest, KeepsTwoVersions) {
  for (const WireDtype dtype : kDtypes) {
    ChunkWeights weights = Make(WithDtype(dtype));
    EXPECT_EQ(weights.version(), 0);
    EXPECT_FALSE(weights.Has(-1));
    for (int64_t version = 1; version < 5; ++version) {
      Advance(&weights, Values(version), /*for_streams=*/version % 2 == 0);
      EXPECT_EQ(weights.version(), version);
      for (const int64_t v : {version - 1, version}) {
        ASSERT_TRUE(weights.Has(v));
        EXPECT_EQ(DecodedFloats(weights.Exact(v)), Values(v));
        EXPECT_EQ(weights.Encoded(v).encoding, WeightsEncoding(exchange_));
        EXPECT_EQ(DecodedFloats(weights.Encoded(v)), Rounded(dtype, Values(v)));
      }
      EXPECT_FALSE(weights.Has(version - 2));
      EXPECT_EQ(weights.Encoded(version - 2).data, nullptr);
      EXPECT_EQ(weights.Exact(version - 2).data, nullptr);
      EXPECT_EQ(weights.difference().data, nullptr);
    }
  }
}

TEST_F(ChunkWeightsTest, EncodesAVersionOnceForAllWorkers) {
  for (const WireDtype dtype : kDtypes) {
    ChunkWeights weights = Make(WithDtype(dtype));
    for (const bool for_streams : {false, true}) {
      Advance(&weights, Values(weights.version() + 1), for_streams);
      EXPECT_EQ(weights.Encoded(weights.version()).data,
                weights.Encoded(weights.version()).data);
    }
  }
}

TEST_F(ChunkWeightsTest, BothTransportsCarryTheSameBits) {
  for (const WireDtype dtype : kDtypes) {
    ChunkWeights weights = Make(WithDtype(dtype));
    Advance(&weights, Values(1));
    const Buffer places[2] = {buffers_.Take(), buffers_.Take()};
    weights.Share(places[0], places[1]);
    const EncodedFloats before = weights.Encoded(1);
    for (int64_t version = 1; version < 6; ++version) {
      if (version > 1) Advance(&weights, Values(version));
      for (const int64_t v : {version - 1, version}) {
        const float* const place = places[v % 2].get();
        EXPECT_EQ(std::vector<float>(place, place + kElements),
                  Rounded(dtype, Values(v)));
        EXPECT_EQ(DecodedFloats(weights.Encoded(v)), Rounded(dtype, Values(v)));
        EXPECT_EQ(DecodedFloats(weights.Exact(v)), Values(v));
      }
    }
    // What was handed out is not overwritten.
    EXPECT_EQ(DecodedFloats(before), Rounded(dtype, Values(1)));
  }
}

TEST_F(ChunkWeightsTest, CanBeSharedWhileAVersionIsInTheMaking) {
  for (const WireDtype dtype : kDtypes) {
    ChunkWeights weights = Make(WithDtype(dtype));
    ChunkWeights::Next next = weights.Begin(/*for_streams=*/true);
    const Buffer places[2] = {buffers_.Take(), buffers_.Take()};
    weights.Share(places[0], places[1]);
    Write(Values(1), next);
    next.Write(0, kElements, next.values.get());
    weights.Complete(&next);
    weights.Finish(std::move(next));
    for (const int64_t v : {0, 1}) {
      const float* const place = places[v].get();
      EXPECT_EQ(std::vector<float>(place, place + kElements),
                Rounded(dtype, Values(v)));
      EXPECT_EQ(DecodedFloats(weights.Encoded(v)), Rounded(dtype, Values(v)));
    }
  }
}

ExchangeSpec TopK(double fraction) {
  ExchangeSpec exchange;
  exchange.mutable_compression()->mutable_top_k()->set_fraction(fraction);
  return exchange;
}

ExchangeSpec EightBit() {
  ExchangeSpec exchange;
  exchange.mutable_compression()->mutable_eight_bit();
  return exchange;
}

void Add(const EncodedFloats& difference, std::vector<float>* values) {
  AddCompressed(difference.encoding,
                {static_cast<const char*>(difference.data),
                 static_cast<size_t>(difference.bytes)},
                values->data(), kElements);
}

TEST_F(ChunkWeightsTest, DifferencesLeadToWhatNewcomersGet) {
  for (const ExchangeSpec& exchange : {TopK(0.05), EightBit()}) {
    ChunkWeights weights = Make(exchange);
    std::vector<float> followed = DecodedFloats(weights.Encoded(0));
    EXPECT_EQ(followed, Values(0));
    for (int64_t version = 1; version < 10; ++version) {
      const std::vector<float> before = followed;
      Advance(&weights, Values(version));
      Add(weights.difference(), &followed);
      EXPECT_EQ(DecodedFloats(weights.Encoded(version)), followed);
      EXPECT_EQ(DecodedFloats(weights.Encoded(version - 1)), before);
      EXPECT_EQ(DecodedFloats(weights.Exact(version)), Values(version));
    }
  }
}

TEST_F(ChunkWeightsTest, DifferencesCatchUpWithWeightsThatRest) {
  for (const ExchangeSpec& exchange : {TopK(0.05), EightBit()}) {
    ChunkWeights weights = Make(exchange);
    for (int i = 0; i < 20; ++i) Advance(&weights, Values(1));
    const std::vector<float> published = DecodedFloats(weights.Encoded(20));
    for (int64_t i = 0; i < kElements; ++i) {
      ASSERT_NEAR(published[i], Values(1)[i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace tributary
