#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "common/codec/encoding.h"
#include "common/numerics/half.h"
#include "common/numerics/philox.h"
#include "common/parameters/reduction_tree.h"
#include "tests/proto/vectors.h"

namespace tributary {
namespace {

// Numbers of many magnitudes, of both signs.
std::vector<float> Numbers(int64_t count, uint32_t which) {
  const RandomStream stream = {1, RandomPurpose::kMadeUpData, which, 0};
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) {
    const PhiloxBlock words = stream.Block(i);
    numbers[i] = std::ldexp(2 * UniformFloat(words[0]) - 1,
                            static_cast<int>(words[1] % 12) - 8);
  }
  return numbers;
}

// The edges of the formats: ties, overflow, denormal numbers, NaN.
std::vector<float> Edges() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  return {0.0f,       -0.0f,      1.0f,      0x1.01p0f, 0x1.03p0f, 0x1.02p0f,
          -0x1.01p0f, 65504.0f,   65519.0f,  65520.0f,  -1e6f,     3e38f,
          kInfinity,  -kInfinity, kNan,      -kNan,     0x1p-14f,  0x1p-15f,
          0x1.8p-25f, 0x1p-25f,   -0x1p-24f, 0x1p-126f, 0x1p-127f, -0x1p-140f};
}

void AddSixteenBits(WireDtype dtype, std::vector<float> values, Vectors* list) {
  std::string payload(2 * values.size(), '\0');
  const auto count = static_cast<int64_t>(values.size());
  EncodeHalf(dtype, values.data(), &payload[0], count);
  std::vector<float> decoded(values.size());
  DecodeHalf(dtype, payload.data(), decoded.data(), count);
  list->push_back({{"encoding", ExchangeSpec::WireDtype_Name(dtype)},
                   {"values", HexOf(values.data(), count)},
                   {"payload", HexOf(payload)},
                   {"decoded", HexOf(decoded.data(), count)}});
}

// Two contributions one after the other: the second finds the residual of the
// first.
void AddCompressed(const CompressionSpec& compression, int64_t count,
                   Vectors* list) {
  std::vector<float> residual(count, 0.0f);
  for (uint32_t which : {1, 2}) {
    const std::vector<float> gradient = Numbers(count, which);
    const std::string before = HexOf(residual.data(), count);
    const EncodedFloats encoded = CompressWithFeedback(
        compression, gradient.data(), residual.data(), count);
    Vectors vector = {{"encoding", Encoding_Name(encoded.encoding)}};
    if (compression.has_top_k()) {
      vector["fraction"] = compression.top_k().fraction();
    }
    vector["gradient"] = HexOf(gradient.data(), count);
    vector["residual"] = before;
    vector["payload"] =
        HexOf(std::string(static_cast<const char*>(encoded.data),
                          static_cast<size_t>(encoded.bytes)));
    vector["residual_after"] = HexOf(residual.data(), count);
    list->push_back(vector);
  }
}

}  // namespace

Vectors EncodingVectors() {
  Vectors halves = Vectors::array();
  for (const WireDtype dtype :
       {ExchangeSpec::BFLOAT16, ExchangeSpec::FLOAT16}) {
    AddSixteenBits(dtype, Edges(), &halves);
    AddSixteenBits(dtype, Numbers(32, 0), &halves);
  }
  Vectors compressed = Vectors::array();
  CompressionSpec compression;
  for (const double fraction : {0.01, 0.1, 0.5}) {
    compression.mutable_top_k()->set_fraction(fraction);
    AddCompressed(compression, 80, &compressed);
  }
  compression.mutable_eight_bit();
  AddCompressed(compression, 80, &compressed);
  AddCompressed(compression, 272, &compressed);
  return {{"sixteen_bits", halves}, {"compressed", compressed}};
}

Vectors TreeVectors() {
  Vectors list = Vectors::array();
  for (const int leaves : {1, 2, 8}) {
    for (int begin = 0; begin < leaves; ++begin) {
      for (int end = begin + 1; end <= leaves; ++end) {
        list.push_back({{"leaves", leaves},
                        {"begin", begin},
                        {"end", end},
                        {"nodes", MaximalSubtrees({begin, end}, leaves)}});
      }
    }
  }
  list.push_back({{"leaves", 1024},
                  {"begin", 5},
                  {"end", 1000},
                  {"nodes", MaximalSubtrees({5, 1000}, 1024)}});
  return {{"nodes", list}};
}

}  // namespace tributary
