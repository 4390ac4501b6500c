#include "common/parameters/arena_layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Add(ParameterTable* table, const std::string& name,
         const std::vector<int64_t>& shape, OptimizerGroup group = DECAY) {
  ParameterTable::Parameter* parameter = table->add_parameter();
  parameter->set_name(name);
  for (const int64_t dimension : shape) parameter->add_shape(dimension);
  parameter->set_group(group);
}

// w: 15 elements, gap of 1; b: 32 elements at 16, s: a scalar at 48, then v of
// 40 at 64: 112 elements with the gaps.
ParameterTable SmallTable() {
  ParameterTable table;
  table.set_chunk_elements(32);
  Add(&table, "w", {3, 5});
  Add(&table, "b", {32}, NO_DECAY);
  Add(&table, "s", {}, NO_DECAY);
  Add(&table, "v", {2, 20});
  return table;
}

TEST(ArenaLayoutTest, AlignsParametersAndCountsWithoutGaps) {
  const auto layout = ArenaLayout::Create(SmallTable());
  ASSERT_TRUE(layout.ok()) << layout.status();
  std::vector<int64_t> offsets;
  for (const Parameter& p : layout->parameters()) offsets.push_back(p.offset);
  EXPECT_THAT(offsets, ElementsAre(0, 16, 48, 64));
  EXPECT_EQ(layout->parameters()[2].size, 1);
  EXPECT_EQ(layout->parameter_count(), 15 + 32 + 1 + 40);
  EXPECT_EQ(layout->arena_elements(), 112);
  EXPECT_EQ(layout->chunk_count(), 4);
  EXPECT_EQ(layout->ChunkSize(0), 32);
  EXPECT_EQ(layout->ChunkSize(3), 16);
}

MATCHER_P3(Segment, begin, end, group, "") {
  return arg.begin == begin && arg.end == end && arg.group == group;
}

TEST(ArenaLayoutTest, PaddingIsAGapBehindTheParameter) {
  ParameterTable table = SmallTable();
  table.mutable_parameter(0)->set_padding(20);
  const auto layout = ArenaLayout::Create(table);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->parameters()[0].size, 15);
  EXPECT_EQ(layout->parameters()[0].padding, 20);
  EXPECT_EQ(layout->parameters()[1].offset, 48);
  EXPECT_EQ(layout->parameter_count(), 15 + 32 + 1 + 40);
  EXPECT_EQ(layout->arena_elements(), 112 + 32);
  EXPECT_EQ(layout->ChunkSegments(0).back().end, 15);
  EXPECT_EQ(layout->ChunkSegments(1).front().begin, 16);
  EXPECT_EQ(layout->signature(),
            Sha256Hex("tributary-table-1\n32\nw 3x5 DECAY +20\nb 32 NO_DECAY\n"
                      "s  NO_DECAY\nv 2x20 DECAY\n"));
}

TEST(ArenaLayoutTest, LearningRateFactorsDivideSegments) {
  ParameterTable table = SmallTable();
  table.mutable_parameter(1)->set_learning_rate_factor(0.5f);
  table.mutable_parameter(3)->set_learning_rate_factor(1);
  auto layout = ArenaLayout::Create(table);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->parameters()[0].learning_rate_factor, 1);
  EXPECT_EQ(layout->parameters()[1].learning_rate_factor, 0.5f);
  const std::vector<ChunkSegment> segments = layout->ChunkSegments(1);
  EXPECT_THAT(segments,
              ElementsAre(Segment(0, 16, NO_DECAY), Segment(16, 17, NO_DECAY)));
  EXPECT_EQ(segments[0].learning_rate_factor, 0.5f);
  EXPECT_EQ(segments[1].learning_rate_factor, 1);
  const std::string signature = Sha256Hex(
      "tributary-table-1\n32\nw 3x5 DECAY\nb 32 NO_DECAY *3f000000\n"
      "s  NO_DECAY\nv 2x20 DECAY\n");
  EXPECT_EQ(layout->signature(), signature);
  layout->ClearLearningRateFactors();
  EXPECT_EQ(layout->ChunkSegments(1).size(), 1);
  EXPECT_EQ(layout->signature(), signature);
}

TEST(ArenaLayoutTest, SegmentsFollowGroupsAndLeaveOutGaps) {
  const auto layout = ArenaLayout::Create(SmallTable());
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(layout->ChunkSegments(0),
              ElementsAre(Segment(0, 15, DECAY), Segment(16, 32, NO_DECAY)));
  // The end of b and s are neighbours of one group.
  EXPECT_THAT(layout->ChunkSegments(1), ElementsAre(Segment(0, 17, NO_DECAY)));
  EXPECT_THAT(layout->ChunkSegments(2), ElementsAre(Segment(0, 32, DECAY)));
  EXPECT_THAT(layout->ChunkSegments(3), ElementsAre(Segment(0, 8, DECAY)));
}

TEST(ArenaLayoutTest, EveryElementIsInExactlyOneSegment) {
  ParameterTable table;
  table.set_chunk_elements(48);
  for (int i = 1; i < 60; ++i) {
    Add(&table, "p" + std::to_string(i), {i}, i % 3 == 0 ? NO_DECAY : DECAY);
  }
  const auto layout = ArenaLayout::Create(table);
  ASSERT_TRUE(layout.ok());
  std::vector<int> group(layout->arena_elements(), 0);
  for (int chunk = 0; chunk < layout->chunk_count(); ++chunk) {
    for (const ChunkSegment& s : layout->ChunkSegments(chunk)) {
      ASSERT_LT(s.begin, s.end);
      ASSERT_LE(s.end, layout->ChunkSize(chunk));
      for (int64_t i = s.begin; i < s.end; ++i) {
        int& entry = group[layout->ChunkBegin(chunk) + i];
        EXPECT_EQ(entry, 0);
        entry = s.group;
      }
    }
  }
  for (const Parameter& p : layout->parameters()) {
    for (int64_t i = 0; i < p.size; ++i) {
      EXPECT_EQ(group[p.offset + i], p.group);
    }
  }
  EXPECT_EQ(std::count(group.begin(), group.end(), 0),
            layout->arena_elements() - layout->parameter_count());
}

TEST(ArenaLayoutTest, AssignsEveryChunkToOneServer) {
  const auto layout = ArenaLayout::Create(SmallTable());
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(layout->ChunksOf(0, 3), ElementsAre(0, 3));
  EXPECT_THAT(layout->ChunksOf(1, 3), ElementsAre(1));
  EXPECT_THAT(layout->ChunksOf(2, 3), ElementsAre(2));
  EXPECT_THAT(layout->ChunksOf(4, 5), ElementsAre());
}

TEST(ArenaLayoutTest, SignatureIsTheDocumentedDigest) {
  const auto layout = ArenaLayout::Create(SmallTable());
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->signature(),
            Sha256Hex("tributary-table-1\n32\nw 3x5 DECAY\nb 32 NO_DECAY\n"
                      "s  NO_DECAY\nv 2x20 DECAY\n"));
}

TEST(ArenaLayoutTest, SignatureChangesWithEveryPartOfTheTable) {
  const std::string signature = ArenaLayout::Create(SmallTable())->signature();
  ParameterTable name = SmallTable(), shape = SmallTable(),
                 group = SmallTable(), chunk = SmallTable();
  name.mutable_parameter(0)->set_name("x");
  shape.mutable_parameter(0)->set_shape(0, 5);
  shape.mutable_parameter(0)->set_shape(1, 3);
  group.mutable_parameter(0)->set_group(NO_DECAY);
  chunk.set_chunk_elements(64);
  for (const ParameterTable& table : {name, shape, group, chunk}) {
    EXPECT_NE(ArenaLayout::Create(table)->signature(), signature);
  }
}

struct BadTable {
  const char* what;
  void (*spoil)(ParameterTable*);
  const char* message;
};

TEST(ArenaLayoutTest, RefusesTablesThatBreakTheRules) {
  const BadTable cases[] = {
      {"none", [](ParameterTable* t) { t->clear_parameter(); },
       "no parameters"},
      {"no name",
       [](ParameterTable* t) { t->mutable_parameter(1)->set_name(""); },
       "parameter \"\": the name"},
      {"space",
       [](ParameterTable* t) { t->mutable_parameter(1)->set_name("a b"); },
       "parameter \"a b\": the name"},
      {"control character",
       [](ParameterTable* t) { t->mutable_parameter(1)->set_name("a\nb"); },
       "parameter \"a\\nb\": the name"},
      {"long",
       [](ParameterTable* t) {
         t->mutable_parameter(1)->set_name(std::string(257, 'n'));
       },
       "1 to 256"},
      {"twice",
       [](ParameterTable* t) { t->mutable_parameter(1)->set_name("w"); },
       "parameter \"w\": the name is used twice"},
      {"zero",
       [](ParameterTable* t) { t->mutable_parameter(0)->set_shape(1, 0); },
       "parameter \"w\": dimension 0 is below 1"},
      {"negative",
       [](ParameterTable* t) { t->mutable_parameter(0)->set_shape(1, -4); },
       "parameter \"w\": dimension -4 is below 1"},
      {"nine dimensions",
       [](ParameterTable* t) {
         for (int i = 0; i < 7; ++i) t->mutable_parameter(0)->add_shape(1);
       },
       "has 9 dimensions"},
      {"overflow",
       [](ParameterTable* t) {
         t->mutable_parameter(0)->set_shape(
             0, std::numeric_limits<int64_t>::max());
       },
       "elements"},
      {"product overflows to a small number",
       [](ParameterTable* t) {
         t->mutable_parameter(0)->set_shape(0, int64_t{1} << 32);
         t->mutable_parameter(0)->set_shape(1, int64_t{1} << 32);
       },
       "elements"},
      {"sum too large",
       [](ParameterTable* t) {
         t->mutable_parameter(1)->set_shape(0, (int64_t{1} << 33) - 8);
       },
       "parameter \"b\": the model up to here"},
      {"padding",
       [](ParameterTable* t) { t->mutable_parameter(0)->set_padding(-1); },
       "parameter \"w\": padding -1 is not"},
      {"padding too large",
       [](ParameterTable* t) {
         t->mutable_parameter(0)->set_padding(int64_t{1} << 33);
       },
       "parameter \"w\": the model up to here"},
      {"negative factor",
       [](ParameterTable* t) {
         t->mutable_parameter(0)->set_learning_rate_factor(-1);
       },
       "parameter \"w\": learning_rate_factor -1 is not above 0"},
      {"large factor",
       [](ParameterTable* t) {
         t->mutable_parameter(0)->set_learning_rate_factor(1001);
       },
       "learning_rate_factor 1001 is not above 0 and at most 1000"},
      {"factor that is NaN",
       [](ParameterTable* t) {
         t->mutable_parameter(0)->set_learning_rate_factor(NAN);
       },
       "learning_rate_factor nan is not above 0"},
      {"factor of statistics",
       [](ParameterTable* t) {
         t->mutable_parameter(0)->set_learning_rate_factor(0.5f);
         t->mutable_parameter(0)->set_group(STATISTICS);
       },
       "learning_rate_factor 0.5 has no effect on group STATISTICS"},
      {"group",
       [](ParameterTable* t) {
         t->mutable_parameter(0)->set_group(OPTIMIZER_GROUP_UNSPECIFIED);
       },
       "unknown optimizer group 0"},
      {"group of the future",
       [](ParameterTable* t) {
         t->mutable_parameter(0)->set_group(static_cast<OptimizerGroup>(7));
       },
       "unknown optimizer group 7"},
      {"chunk 0", [](ParameterTable* t) { t->set_chunk_elements(0); },
       "chunk_elements: 0 is not"},
      {"chunk -16", [](ParameterTable* t) { t->set_chunk_elements(-16); },
       "chunk_elements: -16 is not"},
      {"chunk 17", [](ParameterTable* t) { t->set_chunk_elements(17); },
       "chunk_elements: 17 is not"},
  };
  for (const BadTable& bad : cases) {
    ParameterTable table = SmallTable();
    bad.spoil(&table);
    const auto layout = ArenaLayout::Create(table);
    EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument)
        << bad.what;
    EXPECT_THAT(std::string(layout.status().message()), HasSubstr(bad.message))
        << bad.what;
  }
}

TEST(ArenaLayoutTest, AcceptsAChunkLargerThanTheModel) {
  ParameterTable table = SmallTable();
  table.set_chunk_elements(std::numeric_limits<int64_t>::max() / 16 * 16);
  const auto layout = ArenaLayout::Create(table);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->chunk_count(), 1);
  EXPECT_EQ(layout->ChunkSize(0), 112);
}

}  // namespace
}  // namespace tributary
