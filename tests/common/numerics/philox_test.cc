#include "common/numerics/philox.h"

#include <array>
#include <cstdint>
#include <set>

#include "gtest/gtest.h"

namespace tributary {
namespace {

// From kat_vectors of the Random123 distribution (philox4x32, 10 rounds).
TEST(PhiloxTest, KnownAnswers) {
  const struct {
    PhiloxBlock counter;
    std::array<uint32_t, 2> key;
    PhiloxBlock expected;
  } kCases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(Philox(test.counter, test.key), test.expected);
  }
}

TEST(RandomStreamTest, EveryPartOfTheNameMakesAnotherStream) {
  const RandomStream base = {1, RandomPurpose::kDropout, 2, 3};
  const RandomStream streams[] = {
      base,
      {2, RandomPurpose::kDropout, 2, 3},
      {uint64_t{1} << 32 | 1, RandomPurpose::kDropout, 2, 3},
      {1, RandomPurpose::kSampleOrder, 2, 3},
      {1, RandomPurpose::kDropout, 3, 3},
      {1, RandomPurpose::kDropout, 2, 4},
  };
  std::set<PhiloxBlock> blocks;
  for (const RandomStream& stream : streams) {
    blocks.insert(stream.Block(0));
    blocks.insert(stream.Block(1));
    blocks.insert(stream.Block(uint64_t{1} << 32));
  }
  EXPECT_EQ(blocks.size(), 3u * 6u);
  EXPECT_EQ(base.Block(5), streams[0].Block(5));
}

// Bits of a stream are part of every result: these must never change.
TEST(RandomStreamTest, StreamsStayWhatTheyAre) {
  const RandomStream stream = {0x0123456789abcdef, RandomPurpose::kDropout, 7,
                               11};
  EXPECT_EQ(stream.Block(0),
            (PhiloxBlock{0x9cbf30cb, 0x76a3928d, 0x957b691b, 0xf87fbd86}));
  EXPECT_EQ(stream.Block(uint64_t{1} << 40),
            (PhiloxBlock{0x4e95dfd8, 0xcacd24ad, 0x7d6b24d3, 0x12e62f56}));
}

TEST(UniformFloatTest, CoversZeroToBelowOne) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_EQ(UniformFloat(0xff), 0.0f);
  EXPECT_EQ(UniformFloat(0x80000000), 0.5f);
  EXPECT_EQ(UniformFloat(0xffffffff), 1 - 0x1p-24f);
}

}  // namespace
}  // namespace tributary
