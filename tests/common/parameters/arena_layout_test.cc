#include "common/parameters/arena_layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

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

TEST(ArenaLayoutTest, SignatureIsTheDocumentedDigestOfAllParts) {
  const std::string signature = ArenaLayout::Create(SmallTable())->signature();
  EXPECT_EQ(signature,
            Sha256Hex("tributary-table-1\n32\nw 3x5 DECAY\nb 32 NO_DECAY\n"
                      "s  NO_DECAY\nv 2x20 DECAY\n"));
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

TEST(ArenaLayoutTest, AliasesAreNamesAndPartOfTheSignature) {
  ParameterTable table;
  table.set_chunk_elements(32);
  Add(&table, "w", {3});
  Add(&table, "b", {2}, NO_DECAY);
  table.mutable_parameter(0)->add_alias("v");
  table.mutable_parameter(0)->add_alias("u");
  const auto layout = ArenaLayout::Create(table);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_THAT(layout->parameters()[0].aliases, ElementsAre("v", "u"));
  EXPECT_EQ(layout->parameter_count(), 5);
  EXPECT_EQ(
      layout->signature(),
      Sha256Hex("tributary-table-1\n32\nw 3 DECAY =v =u\nb 2 NO_DECAY\n"));
  for (const char* wrong : {"w", "b", "v", "two words", ""}) {
    ParameterTable bad = table;
    bad.mutable_parameter(1)->add_alias(wrong);
    EXPECT_THAT(
        ArenaLayout::Create(bad).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"b\"")))
        << wrong;
  }
}

TEST(ArenaLayoutTest, RefusesTablesThatBreakTheRules) {
  // Changes to the table, or to its first parameter, w.
  const std::pair<const char*, void (*)(ParameterTable*)> tables[] = {
      {"no parameters", [](auto* t) { t->clear_parameter(); }},
      {"chunk_elements: 0", [](auto* t) { t->set_chunk_elements(0); }},
      {"chunk_elements: -16", [](auto* t) { t->set_chunk_elements(-16); }},
      {"chunk_elements: 17", [](auto* t) { t->set_chunk_elements(17); }},
  };
  const std::pair<const char*, void (*)(ParameterTable::Parameter*)>
      parameters[] = {
          {"\"\": the name", [](auto* w) { w->set_name(""); }},
          {"\"a b\": the name", [](auto* w) { w->set_name("a b"); }},
          {"\"a\\nb\": the name", [](auto* w) { w->set_name("a\nb"); }},
          {"1 to 256", [](auto* w) { w->set_name(std::string(257, 'n')); }},
          {"\"b\": the name is used twice", [](auto* w) { w->set_name("b"); }},
          {"\"w\": dimension 0 ", [](auto* w) { w->set_shape(1, 0); }},
          {"\"w\": dimension -4 ", [](auto* w) { w->set_shape(1, -4); }},
          {"9 dimensions", [](auto* w) { w->mutable_shape()->Resize(9, 1); }},
          {"elements", [](auto* w) { w->set_shape(0, kMax); }},
          // The product overflows to a small number.
          {"elements",
           [](auto* w) {
             w->set_shape(0, int64_t{1} << 32);
             w->set_shape(1, int64_t{1} << 32);
           }},
          // Only the sum with b is too large.
          {"\"b\": the model up to here",
           [](auto* w) { w->set_shape(0, ((int64_t{1} << 33) - 24) / 5); }},
          {"\"w\": padding -1 ", [](auto* w) { w->set_padding(-1); }},
          {"\"w\": the model up to here",
           [](auto* w) { w->set_padding(int64_t{1} << 33); }},
          {"\"w\": learning_rate_factor -1 ",
           [](auto* w) { w->set_learning_rate_factor(-1); }},
          {"learning_rate_factor 1001 ",
           [](auto* w) { w->set_learning_rate_factor(1001); }},
          {"learning_rate_factor nan ",
           [](auto* w) { w->set_learning_rate_factor(NAN); }},
          {"learning_rate_factor 0.5 has no effect on group STATISTICS",
           [](auto* w) {
             w->set_learning_rate_factor(0.5f);
             w->set_group(STATISTICS);
           }},
          {"optimizer group 0",
           [](auto* w) { w->set_group(OPTIMIZER_GROUP_UNSPECIFIED); }},
          {"optimizer group 7",
           [](auto* w) { w->set_group(static_cast<OptimizerGroup>(7)); }},
      };
  const auto expect_refused = [](const ParameterTable& table,
                                 const char* message) {
    EXPECT_THAT(
        ArenaLayout::Create(table),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  for (const auto& [message, spoil] : tables) {
    ParameterTable table = SmallTable();
    spoil(&table);
    expect_refused(table, message);
  }
  for (const auto& [message, spoil] : parameters) {
    ParameterTable table = SmallTable();
    spoil(table.mutable_parameter(0));
    expect_refused(table, message);
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
