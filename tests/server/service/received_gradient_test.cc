#include "server/service/received_gradient.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/codec/top_k.h"
#include "common/stream/received_floats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

// 1 + 2^-10 is not a bfloat16; the nearest is 1.
constexpr float kBetween = 1.0009765625f;

std::shared_ptr<const GradientSource> FromWire(Encoding encoding,
                                               const std::string& payload,
                                               int64_t elements) {
  const auto bytes = std::make_shared<const std::string>(payload);
  auto floats = ReceivedFloats::Create(
      encoding,
      ReceivedPayload(bytes->data(), static_cast<int64_t>(bytes->size()),
                      bytes),
      elements);
  EXPECT_TRUE(floats.ok()) << floats.status();
  return std::make_shared<ReceivedGradient>(*std::move(floats));
}

TEST(ReceivedGradientTest, DecodesAPayloadWhereItIsRead) {
  const std::vector<float> values = {1, kBetween, 3};
  const auto gradient =
      FromWire(FLOAT32,
               std::string(reinterpret_cast<const char*>(values.data()),
                           values.size() * sizeof(float)),
               /*elements=*/3);
  std::vector<float> scratch(2);
  EXPECT_EQ(gradient->Read(1, 2, scratch.data()), scratch.data());
  EXPECT_THAT(scratch, ElementsAre(kBetween, 3));
  EXPECT_TRUE(gradient->memory().empty());
  EXPECT_FALSE(gradient->sparse());
}

TEST(ReceivedGradientTest, AddsASparsePayloadWithoutTheRest) {
  const std::vector<float> zeros(8);
  const std::vector<float> values = {0, 0, 0, 5, 0, 0, 0, 0};
  const auto gradient = FromWire(
      TOP_K, EncodeTopKDifference(0.1, zeros.data(), values.data(), 8), 8);
  EXPECT_TRUE(gradient->sparse());
  std::vector<float> sum = {1, 1, 1};
  gradient->Add(/*begin=*/2, /*count=*/3, sum.data());
  EXPECT_THAT(sum, ElementsAre(1, 6, 1));
}

}  // namespace
}  // namespace tributary
