#include "common/parameters/chunk_ranges.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

ChunkRanges::Message Ranges(const std::vector<std::pair<int, int>>& ranges) {
  ChunkRanges::Message message;
  for (const auto& [begin, end] : ranges) {
    ChunkRange* const range = message.Add();
    range->set_begin(begin);
    range->set_end(end);
  }
  return message;
}

TEST(ChunkRangesTest, NoRangesMeanAllChunks) {
  const ChunkRanges chunks = *ChunkRanges::Create(Ranges({}), 3);
  EXPECT_TRUE(chunks.all());
  EXPECT_TRUE(chunks.Contains(0));
  EXPECT_TRUE(chunks.Contains(2));
  EXPECT_EQ(chunks.CountOf(3), 3);
  EXPECT_TRUE(ChunkRanges().all());
}

TEST(ChunkRangesTest, ContainsWhatIsInARange) {
  const ChunkRanges chunks =
      *ChunkRanges::Create(Ranges({{1, 3}, {3, 4}, {6, 8}}), 8);
  EXPECT_FALSE(chunks.all());
  const std::vector<bool> expected = {false, true,  true, true,
                                      false, false, true, true};
  for (int chunk = 0; chunk < 8; ++chunk) {
    EXPECT_EQ(chunks.Contains(chunk), expected[chunk]) << chunk;
  }
  EXPECT_EQ(chunks.CountOf(8), 5);
  EXPECT_EQ(chunks.ranges().size(), 3);
}

TEST(ChunkRangesTest, AUnionMergesRangesThatTouch) {
  const ChunkRanges::Message parts =
      Ranges({{6, 8}, {0, 2}, {1, 4}, {4, 5}, {6, 7}});
  const ChunkRanges chunks = ChunkRanges::Union({parts.begin(), parts.end()});
  ASSERT_EQ(chunks.ranges().size(), 2);
  EXPECT_EQ(chunks.ranges()[0].begin(), 0);
  EXPECT_EQ(chunks.ranges()[0].end(), 5);
  EXPECT_EQ(chunks.ranges()[1].begin(), 6);
  EXPECT_EQ(chunks.ranges()[1].end(), 8);
}

TEST(ChunkRangesTest, RefusesRangesThatAreNoSetOfTheModelsChunks) {
  const std::vector<std::vector<std::pair<int, int>>> wrong = {
      {{-1, 2}}, {{2, 2}},         {{3, 2}},
      {{0, 9}},  {{0, 4}, {3, 5}}, {{4, 5}, {0, 1}}};
  for (const auto& ranges : wrong) {
    EXPECT_THAT(
        ChunkRanges::Create(Ranges(ranges), 8).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk_range")));
  }
}

}  // namespace
}  // namespace tributary
