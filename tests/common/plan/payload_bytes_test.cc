// Against what the encoders write.
#include "common/plan/payload_bytes.h"

#include <random>
#include <vector>

#include "common/codec/eight_bit.h"
#include "common/codec/top_k.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

std::vector<float> Values(int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(PayloadBytesTest, DependOnTheFormat) {
  ExchangeSpec exchange;
  EXPECT_EQ(ExpectedPayloadBytes(exchange, 1000), 4000);
  exchange.set_wire_dtype(ExchangeSpec::FLOAT16);
  EXPECT_EQ(ExpectedPayloadBytes(exchange, 1000), 2000);
  exchange.set_wire_dtype(ExchangeSpec::BFLOAT16);
  EXPECT_EQ(ExpectedPayloadBytes(exchange, 1000), 2000);
}

TEST(PayloadBytesTest, AreThoseOfTheEncoders) {
  for (const int64_t elements : {1, 16, 255, 256, 257, 10000, 262144}) {
    ExchangeSpec exchange;
    exchange.mutable_compression()->mutable_eight_bit();
    const std::vector<float> zeros(elements), values = Values(elements);
    EXPECT_EQ(ExpectedPayloadBytes(exchange, elements),
              static_cast<int64_t>(EncodeEightBitDifference(
                                       zeros.data(), values.data(), elements)
                                       .size()));
    for (const double fraction : {0.01, 0.1}) {
      exchange.mutable_compression()->mutable_top_k()->set_fraction(fraction);
      const double encoded = static_cast<double>(
          EncodeTopKDifference(fraction, zeros.data(), values.data(), elements)
              .size());
      // The encoder may send a little less.
      EXPECT_LE(encoded, ExpectedPayloadBytes(exchange, elements));
      EXPECT_GE(encoded, 0.95 * ExpectedPayloadBytes(exchange, elements));
    }
  }
}

}  // namespace
}  // namespace tributary
