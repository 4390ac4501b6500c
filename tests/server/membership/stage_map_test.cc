#include "server/membership/stage_map.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

// Three stages of a model of six layers and five chunks. Chunk 1 lies across
// the first boundary. The last stage has no chunk of its own, and shares the
// parameters in chunk 0 with the first one.
StageMap::Stages ThreeStages() {
  StageMap::Stages stages;
  const auto add = [&stages](std::pair<int, int> layers,
                             std::pair<int, int> chunks) {
    StageParameters* const stage = stages.Add();
    stage->set_layer_begin(layers.first);
    stage->set_layer_end(layers.second);
    stage->set_chunk_begin(chunks.first);
    stage->set_chunk_end(chunks.second);
    return stage;
  };
  const auto read = [](StageParameters* stage, int begin, int end) {
    ChunkRange* const range = stage->add_read_chunk();
    range->set_begin(begin);
    range->set_end(end);
  };
  read(add({0, 3}, {0, 2}), 0, 2);
  read(add({3, 4}, {2, 5}), 1, 5);
  StageParameters* const last = add({4, 6}, {5, 5});
  read(last, 0, 1);
  read(last, 4, 5);
  return stages;
}

TEST(StageMapTest, JoinsTheChunksOfContiguousStages) {
  const StageMap map = *StageMap::Create(ThreeStages(), 5);
  EXPECT_EQ(map.layers(), 6);
  const auto contributed = [&map](int begin, int end) {
    const ChunkRange range = map.Contributed({begin, end});
    return std::make_pair(range.begin(), range.end());
  };
  EXPECT_EQ(contributed(0, 1), std::make_pair(0, 2));
  EXPECT_EQ(contributed(0, 3), std::make_pair(0, 5));
  EXPECT_EQ(contributed(1, 3), std::make_pair(2, 5));
  EXPECT_EQ(contributed(2, 3), std::make_pair(5, 5));
}

TEST(StageMapTest, MergesNeighbouringSegments) {
  const StageMap map = *StageMap::Create(ThreeStages(), 5);
  const StageMap merged = map.Merge({0, 1});
  ASSERT_EQ(merged.stages().size(), 2);
  EXPECT_EQ(merged.stages()[0].SerializeAsString(),
            map.stages()[0].SerializeAsString());
  const StageParameters& last = merged.stages()[1];
  EXPECT_EQ(last.layer_begin(), 3);
  EXPECT_EQ(last.layer_end(), 6);
  EXPECT_EQ(last.chunk_begin(), 2);
  EXPECT_EQ(last.chunk_end(), 5);
  // Chunk 0, and chunks 1 to 4, which touch it.
  ASSERT_EQ(last.read_chunk_size(), 1);
  EXPECT_EQ(last.read_chunk(0).begin(), 0);
  EXPECT_EQ(last.read_chunk(0).end(), 5);
  EXPECT_EQ(map.Merge({0}).layers(), 6);
  // The merged division is a valid one.
  EXPECT_TRUE(StageMap::Create(merged.stages(), 5).ok());
}

void ExpectRefusal(const StageMap::Stages& stages, const char* part) {
  EXPECT_THAT(StageMap::Create(stages, 5).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
}

TEST(StageMapTest, RefusesADivisionThatIsNone) {
  ExpectRefusal(StageMap::Stages(), "empty");
  StageMap::Stages stages = ThreeStages();
  stages[0].set_layer_begin(1);
  ExpectRefusal(stages, "segment 0");
  stages = ThreeStages();
  stages[1].set_layer_begin(2);
  ExpectRefusal(stages, "segment 1");
  stages = ThreeStages();
  stages[2].set_layer_end(4);
  ExpectRefusal(stages, "segment 2");
  stages = ThreeStages();
  stages[1].set_chunk_begin(3);
  ExpectRefusal(stages, "segment 1");
  stages = ThreeStages();
  stages[0].set_chunk_end(0);
  ExpectRefusal(stages, "segment 0");
  stages = ThreeStages();
  stages[1].set_chunk_end(4);
  stages[2].set_chunk_begin(4);
  stages[2].set_chunk_end(4);
  ExpectRefusal(stages, "segment 2");
}

TEST(StageMapTest, RefusesStagesThatDoNotReadWhatTheyChange) {
  StageMap::Stages stages = ThreeStages();
  stages[1].mutable_read_chunk(0)->set_end(4);
  ExpectRefusal(stages, "chunk 4");
  stages = ThreeStages();
  stages[2].clear_read_chunk();
  ExpectRefusal(stages, "no parameters");
  stages = ThreeStages();
  stages[2].mutable_read_chunk(1)->set_end(6);
  ExpectRefusal(stages, "chunk_range");
}

}  // namespace
}  // namespace tributary
