#include "worker/exchange/parameter_server/received_weights.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/codec/encoding.h"
#include "common/numerics/half.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kReceivedWeightsElements = 32;

ArenaLayout ReceivedWeightsLayout() {
  ParameterTable table;
  table.set_chunk_elements(kReceivedWeightsElements);
  auto* parameter = table.add_parameter();
  parameter->set_name("w");
  parameter->add_shape(2 * kReceivedWeightsElements);
  parameter->set_group(DECAY);
  return *ArenaLayout::Create(table);
}

ReceivedPayload Payload(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return ReceivedPayload(owner->data(), static_cast<int64_t>(owner->size()),
                         owner);
}

std::string Float32(float value) {
  const std::vector<float> values(kReceivedWeightsElements, value);
  return std::string(reinterpret_cast<const char*>(values.data()),
                     4 * kReceivedWeightsElements);
}

std::string TopK(uint32_t place, float value) {
  std::string bytes(8, 0);
  std::memcpy(&bytes[0], &place, 4);
  std::memcpy(&bytes[4], &value, 4);
  return bytes;
}

Weights Header(int64_t version, Encoding encoding, bool difference) {
  Weights weights;
  weights.set_chunk(1);
  weights.set_version(version);
  weights.set_encoding(encoding);
  weights.set_difference(difference);
  return weights;
}

class ReceivedWeightsTest : public ::testing::Test {
 protected:
  // What is written, or the error.
  std::string Take(ReceivedWeights* received, const Weights& weights,
                   const std::string& payload) {
    const auto floats = received->Take(weights, Payload(payload));
    if (!floats.ok()) {
      EXPECT_EQ(floats.status().code(), absl::StatusCode::kInvalidArgument);
      return std::string(floats.status().message());
    }
    received->Write(1, *floats, values_.data());
    return "";
  }

  const ArenaLayout layout_ = ReceivedWeightsLayout();
  std::vector<float> values_ = std::vector<float>(kReceivedWeightsElements);
};

ExchangeSpec ReceivedWeightsCompressed() {
  ExchangeSpec exchange;
  exchange.mutable_compression()->mutable_top_k();
  return exchange;
}

TEST_F(ReceivedWeightsTest, ReadsWholeChunks) {
  ReceivedWeights received(ExchangeSpec(), &layout_);
  EXPECT_EQ(Take(&received, Header(3, FLOAT32, false), Float32(1.5f)), "");
  EXPECT_EQ(values_, std::vector<float>(kReceivedWeightsElements, 1.5f));

  ExchangeSpec exchange;
  exchange.set_wire_dtype(ExchangeSpec::BFLOAT16);
  ReceivedWeights halves(exchange, &layout_);
  const std::vector<float> values(kReceivedWeightsElements, -2.5f);
  std::string bytes(2 * kReceivedWeightsElements, 0);
  EncodeHalf(ExchangeSpec::BFLOAT16, values.data(), &bytes[0],
             kReceivedWeightsElements);
  EXPECT_EQ(Take(&halves, Header(0, BFLOAT16, false), bytes), "");
  EXPECT_EQ(values_, values);
}

TEST_F(ReceivedWeightsTest, FollowsDifferences) {
  ReceivedWeights received(ReceivedWeightsCompressed(), &layout_);
  std::vector<float> expected(kReceivedWeightsElements, 1);
  EXPECT_EQ(Take(&received, Header(5, FLOAT32, false), Float32(1)), "");
  EXPECT_EQ(values_, expected);
  expected[7] += 2;
  EXPECT_EQ(Take(&received, Header(6, TOP_K, true), TopK(7, 2)), "");
  EXPECT_EQ(values_, expected);
  // Again, because it had no place the first time.
  EXPECT_EQ(Take(&received, Header(6, TOP_K, true), TopK(7, 2)), "");
  EXPECT_EQ(values_, expected);
  // The whole again, at both versions, because this worker is slow.
  EXPECT_EQ(Take(&received, Header(8, FLOAT32, false), Float32(3)), "");
  EXPECT_EQ(Take(&received, Header(9, FLOAT32, false), Float32(4)), "");
  EXPECT_EQ(Take(&received, Header(10, TOP_K, true), TopK(0, -1)), "");
  expected.assign(kReceivedWeightsElements, 4);
  expected[0] = 3;
  EXPECT_EQ(values_, expected);
}

TEST_F(ReceivedWeightsTest, RefusesWhatNoHonestServerSends) {
  ReceivedWeights plain(ExchangeSpec(), &layout_);
  EXPECT_THAT(Take(&plain, Header(1, BFLOAT16, false), ""),
              HasSubstr("weights of chunk 1 in encoding BFLOAT16"));
  EXPECT_THAT(Take(&plain, Header(1, FLOAT32, true), Float32(1)),
              HasSubstr("chunk 1 in encoding FLOAT32"));
  EXPECT_THAT(Take(&plain, Header(1, FLOAT32, false), "abc"),
              HasSubstr("payload of 3 bytes, expected 128"));
  ReceivedWeights received(ReceivedWeightsCompressed(), &layout_);
  EXPECT_THAT(Take(&received, Header(1, TOP_K, true), TopK(0, 1)),
              HasSubstr("version 1 of chunk 1, which is at version -1"));
  EXPECT_EQ(Take(&received, Header(1, FLOAT32, false), Float32(1)), "");
  EXPECT_THAT(Take(&received, Header(3, TOP_K, true), TopK(0, 1)),
              HasSubstr("version 3 of chunk 1, which is at version 1"));
  EXPECT_THAT(Take(&received, Header(2, TOP_K, false), TopK(0, 1)),
              HasSubstr("which the job does not use"));
  EXPECT_THAT(Take(&received, Header(2, TOP_K, true), TopK(32, 1)),
              HasSubstr("place 32"));
}

}  // namespace
}  // namespace tributary
