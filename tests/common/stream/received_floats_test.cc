#include "common/stream/received_floats.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/codec/eight_bit.h"
#include "common/codec/encoding.h"
#include "common/codec/top_k.h"
#include "common/numerics/half.h"
#include "common/transport/chunk_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kElements = 5000;

std::vector<float> Numbers() {
  std::vector<float> numbers(kElements);
  for (int64_t i = 0; i < kElements; ++i) {
    numbers[i] = static_cast<float>((i * 37) % 101 - 50) * 0.013f;
  }
  return numbers;
}

// In pieces of `piece` bytes, as a socket would deliver them, behind a header.
ReceivedPayload Pieces(const std::string& payload, size_t piece) {
  const std::string message = "header" + payload;
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < message.size(); i += piece) {
    slices.emplace_back(message.substr(i, piece));
  }
  return PayloadAtEnd(grpc::ByteBuffer(slices.data(), slices.size()),
                      static_cast<int64_t>(payload.size()));
}

// A payload, and what it stands for.
struct Example {
  Encoding encoding;
  std::string payload;
  std::vector<float> values;
};

std::vector<Example> Examples() {
  const std::vector<float> numbers = Numbers();
  std::vector<Example> examples;
  std::string bytes(4 * kElements, 0);
  std::memcpy(&bytes[0], numbers.data(), bytes.size());
  examples.push_back({FLOAT32, bytes, numbers});
  for (const Encoding encoding : {BFLOAT16, FLOAT16}) {
    std::string halves(2 * kElements, 0);
    EncodeHalf(DtypeOf(encoding), numbers.data(), &halves[0], kElements);
    std::vector<float> rounded = numbers;
    RoundTo(DtypeOf(encoding), rounded.data(), kElements);
    examples.push_back({encoding, halves, rounded});
  }
  const std::vector<float> zeros(kElements);
  std::vector<float> decoded(kElements);
  const std::string top =
      EncodeTopKDifference(0.1, zeros.data(), numbers.data(), kElements);
  DecodeTopK(top, 0, kElements, decoded.data());
  examples.push_back({TOP_K, top, decoded});
  const std::string eight =
      EncodeEightBitDifference(zeros.data(), numbers.data(), kElements);
  DecodeEightBit(eight, kElements, 0, kElements, decoded.data());
  examples.push_back({EIGHT_BIT, eight, decoded});
  return examples;
}

TEST(ReceivedFloats, ReadsAnyPartOfEachEncodingHoweverItIsCut) {
  for (const Example& example : Examples()) {
    for (const size_t piece : {1, 3, 64, 4001, 100000}) {
      const auto floats = ReceivedFloats::Create(
          example.encoding, Pieces(example.payload, piece), kElements);
      ASSERT_TRUE(floats.ok()) << floats.status();
      for (const auto& [begin, count] :
           {std::pair<int64_t, int64_t>{0, kElements},
            {0, 1},
            {4096, 904},
            {17, 3000},
            {kElements, 0}}) {
        std::vector<float> read(count + 1, 7);
        floats->Read(begin, count, read.data());
        EXPECT_EQ(read.back(), 7);
        read.pop_back();
        EXPECT_EQ(read,
                  std::vector<float>(example.values.begin() + begin,
                                     example.values.begin() + begin + count))
            << example.encoding << " " << piece;
        if (!floats->sparse()) continue;
        floats->AddPart(begin, count, read.data());
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(read[i], 2 * example.values[begin + i]);
        }
      }
      std::vector<float> streamed(kElements);
      floats->Stream(streamed.data());
      EXPECT_EQ(streamed, example.values) << example.encoding << " " << piece;
    }
  }
}

TEST(ReceivedFloats, AddsWhatIsCompressed) {
  for (const Example& example : Examples()) {
    if (example.encoding != TOP_K && example.encoding != EIGHT_BIT) continue;
    std::vector<float> sum(kElements, 1);
    ReceivedFloats::Create(example.encoding, Pieces(example.payload, 64),
                           kElements)
        ->AddTo(sum.data());
    for (int64_t i = 0; i < kElements; ++i) {
      EXPECT_EQ(sum[i], 1 + example.values[i]);
    }
  }
}

TEST(ReceivedFloats, RefusesPayloadsOfAnotherLength) {
  const auto why = [](Encoding encoding, int64_t bytes) {
    const auto status =
        ReceivedFloats::Create(encoding, Pieces(std::string(bytes, 1), 64), 100)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(why(FLOAT32, 399), "payload of 399 bytes, expected 400");
  EXPECT_EQ(why(BFLOAT16, 400), "payload of 400 bytes, expected 200");
  EXPECT_EQ(why(FLOAT16, 0), "payload of 0 bytes, expected 200");
  EXPECT_THAT(why(TOP_K, 808), HasSubstr("808 bytes"));
  EXPECT_THAT(why(TOP_K, 8), HasSubstr("place 16843009"));
  EXPECT_THAT(why(EIGHT_BIT, 103), HasSubstr("expected 104"));
  EXPECT_THAT(why(static_cast<Encoding>(9), 4),
              HasSubstr("unknown encoding 9"));
}

}  // namespace
}  // namespace tributary
