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
  const StageMap map = *StageMap::Create(3, ThreeStages(), 5);
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

void ExpectRefusal(const StageMap::Stages& stages, const char* part) {
  EXPECT_THAT(StageMap::Create(3, stages, 5).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
}

TEST(StageMapTest, RefusesADivisionThatIsNone) {
  EXPECT_THAT(StageMap::Create(2, ThreeStages(), 5).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parallel.pipeline.stages is 2")));
  StageMap::Stages stages = ThreeStages();
  stages[0].set_layer_begin(1);
  ExpectRefusal(stages, "stage 0");
  stages = ThreeStages();
  stages[1].set_layer_begin(2);
  ExpectRefusal(stages, "stage 1");
  stages = ThreeStages();
  stages[2].set_layer_end(4);
  ExpectRefusal(stages, "stage 2");
  stages = ThreeStages();
  stages[1].set_chunk_begin(3);
  ExpectRefusal(stages, "stage 1");
  stages = ThreeStages();
  stages[0].set_chunk_end(0);
  ExpectRefusal(stages, "stage 0");
  stages = ThreeStages();
  stages[1].set_chunk_end(4);
  stages[2].set_chunk_begin(4);
  stages[2].set_chunk_end(4);
  ExpectRefusal(stages, "stage 2");
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
