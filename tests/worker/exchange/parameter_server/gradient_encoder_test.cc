#include "worker/exchange/parameter_server/gradient_encoder.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/numerics/half.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int64_t kChunkElements = 512;
constexpr int kChunks = 3;

ArenaLayout Layout() {
  ParameterTable table;
  table.set_chunk_elements(kChunkElements);
  auto* parameter = table.add_parameter();
  parameter->set_name("w");
  // The last chunk is shorter.
  parameter->add_shape(kChunks * kChunkElements - 100);
  parameter->set_group(DECAY);
  return *ArenaLayout::Create(table);
}

class GradientEncoderTest : public ::testing::Test {
 protected:
  NodeChunk Gradient(int chunk, int seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> distribution;
    NodeChunk sum;
    sum.node = 1;
    sum.chunk = chunk;
    sum.arena = arenas_.Take();
    for (int64_t i = 0; i < layout_.arena_elements(); ++i) {
      sum.arena.get()[i] = distribution(generator);
    }
    return sum;
  }

  const float* Values(const NodeChunk& sum) const {
    return sum.arena.get() + layout_.ChunkBegin(sum.chunk);
  }

  const ArenaLayout layout_ = Layout();
  BufferPool arenas_{layout_.arena_elements()};
};

TEST_F(GradientEncoderTest, Float32StaysWhereItIs) {
  GradientEncoder encoder(ExchangeSpec(), &layout_);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    const NodeChunk sum = Gradient(chunk, chunk);
    const EncodedFloats encoded = encoder.Encode(sum);
    EXPECT_EQ(encoded.encoding, FLOAT32);
    EXPECT_EQ(encoded.data, Values(sum));
    EXPECT_EQ(encoded.bytes, 4 * layout_.ChunkSize(chunk));
    EXPECT_EQ(encoded.owner, sum.arena);
  }
}

TEST_F(GradientEncoderTest, SixteenBitsAreRoundedCopies) {
  for (const WireDtype dtype :
       {ExchangeSpec::BFLOAT16, ExchangeSpec::FLOAT16}) {
    ExchangeSpec exchange;
    exchange.set_wire_dtype(dtype);
    GradientEncoder encoder(exchange, &layout_);
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const NodeChunk sum = Gradient(chunk, chunk);
      const int64_t elements = layout_.ChunkSize(chunk);
      const EncodedFloats encoded = encoder.Encode(sum);
      EXPECT_EQ(DtypeOf(encoded.encoding), dtype);
      ASSERT_EQ(encoded.bytes, 2 * elements);
      std::vector<float> decoded(elements);
      DecodeHalf(dtype, encoded.data, decoded.data(), elements);
      std::vector<float> expected(Values(sum), Values(sum) + elements);
      RoundTo(dtype, expected.data(), elements);
      EXPECT_EQ(decoded, expected);
    }
  }
}

ExchangeSpec Compressed(bool top_k) {
  ExchangeSpec exchange;
  if (top_k) {
    exchange.mutable_compression()->mutable_top_k()->set_fraction(0.05);
  } else {
    exchange.mutable_compression()->mutable_eight_bit();
  }
  return exchange;
}

// Everything that comes in goes out, sooner or later, chunk by chunk.
TEST_F(GradientEncoderTest, CompressionSendsLaterWhatItLeavesOut) {
  for (const bool top_k : {true, false}) {
    GradientEncoder encoder(Compressed(top_k), &layout_);
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int64_t elements = layout_.ChunkSize(chunk);
      std::vector<double> given(elements);
      std::vector<float> sent(elements);
      int64_t bytes = 0;
      const auto push = [&](const NodeChunk& sum) {
        for (int64_t i = 0; i < elements; ++i) given[i] += Values(sum)[i];
        const EncodedFloats encoded = encoder.Encode(sum);
        bytes += encoded.bytes;
        AddCompressed(encoded.encoding,
                      {static_cast<const char*>(encoded.data),
                       static_cast<size_t>(encoded.bytes)},
                      sent.data(), elements);
      };
      for (int step = 0; step < 10; ++step) push(Gradient(chunk, step));
      EXPECT_LT(bytes, 10 * 4 * elements / 3);
      // Nothing new: what was left out.
      NodeChunk nothing = Gradient(chunk, 0);
      std::memset(nothing.arena.get(), 0,
                  layout_.arena_elements() * sizeof(float));
      for (int step = 0; step < 30; ++step) push(nothing);
      for (int64_t i = 0; i < elements; ++i) {
        ASSERT_NEAR(sent[i], given[i], 1e-5) << i;
      }
    }
  }
}

TEST_F(GradientEncoderTest, ThreadsMayEncodeAtOnce) {
  GradientEncoder encoder(Compressed(true), &layout_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        EXPECT_GT(encoder.Encode(Gradient(chunk, t)).bytes, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tributary
