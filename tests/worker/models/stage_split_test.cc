#include "worker/models/stages/stage_split.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/nn/layers/linear.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using Range = StageSplit::Range;

constexpr int64_t kWidth = 8;

std::unique_ptr<Layer> MakeLinear() {
  return std::make_unique<Linear>(Linear::FanInOptions(kWidth, kWidth));
}

// Linear layers, some of which share the weight of an earlier one.
Graph RandomLinears(uint32_t seed, int layers) {
  std::mt19937 random(seed);
  Graph graph(kWidth);
  std::vector<std::string> owners;
  ValueId value = 0;
  for (int i = 0; i < layers; ++i) {
    const std::string name = absl::StrCat("layer", i);
    if (!owners.empty() && random() % 3 == 0) {
      value = graph.AddTied(name, MakeLinear(), {value},
                            owners[random() % owners.size()] + ".weight");
    } else {
      value = graph.Add(name, MakeLinear(), {value});
      owners.push_back(name);
    }
  }
  graph.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, kWidth}, value);
  return graph;
}

ArenaLayout LayoutOf(const Graph& graph, int64_t chunk_elements) {
  ParameterTable table = graph.table();
  table.set_chunk_elements(chunk_elements);
  return *ArenaLayout::Create(table);
}

class StageSplitTest : public testing::TestWithParam<int> {};

// Follows each element of a micro-batch's gradient from the stages that compute
// a part of it to the stage that contributes its chunk.
TEST_P(StageSplitTest, EveryGradientReachesTheContributorOfItsChunk) {
  std::mt19937 random(GetParam());
  const int layers = 2 + static_cast<int>(random() % 9);
  const Graph graph = RandomLinears(GetParam(), layers);
  const ArenaLayout layout = LayoutOf(graph, 16 << (random() % 5));
  std::vector<int> cuts;
  for (int i = 1; i < layers; ++i) {
    if (random() % 2 == 0) cuts.push_back(i);
  }
  const auto made = SplitIntoStages(graph, layout, cuts);
  ASSERT_TRUE(made.ok()) << made.status();
  const StageSplit& split = *made;
  ASSERT_EQ(split.stages.size(), cuts.size() + 1);

  int64_t element = 0;
  int64_t chunk = 0;
  for (const StageSplit::Stage& stage : split.stages) {
    EXPECT_EQ(stage.elements.begin, element);
    EXPECT_EQ(stage.chunks.begin, chunk);
    element = stage.elements.end;
    chunk = stage.chunks.end;
  }
  EXPECT_EQ(element, layout.arena_elements());
  EXPECT_EQ(chunk, layout.chunk_count());

  // By element: the stages that hold a part of its gradient.
  std::vector<std::set<int>> holders(layout.arena_elements());
  for (size_t s = 0; s < split.stages.size(); ++s) {
    const StageSplit::Stage& stage = split.stages[s];
    for (int64_t i = stage.elements.begin; i < stage.elements.end; ++i) {
      holders[i].insert(static_cast<int>(s));
    }
    for (int layer = stage.begin; layer < stage.end; ++layer) {
      for (const int p : graph.nodes()[layer].parameters) {
        const Parameter& parameter = layout.parameters()[p];
        for (int64_t i = 0; i < parameter.size; ++i) {
          holders[parameter.offset + i].insert(static_cast<int>(s));
          const int64_t c = (parameter.offset + i) / layout.chunk_elements();
          EXPECT_TRUE(std::any_of(stage.read_chunks.begin(),
                                  stage.read_chunks.end(),
                                  [&](const Range& range) {
                                    return range.begin <= c && c < range.end;
                                  }))
              << "stage " << s << " does not read chunk " << c;
        }
      }
    }
  }
  // Later stages pass their parts on first.
  auto parts = split.parts;
  std::stable_sort(
      parts.begin(), parts.end(),
      [](const auto& a, const auto& b) { return a.from > b.from; });
  for (const StageSplit::Part& part : parts) {
    EXPECT_LT(part.to, part.from);
    for (const Range& range : part.elements) {
      for (int64_t i = range.begin; i < range.end; ++i) {
        EXPECT_EQ(holders[i].erase(part.from), 1)
            << "element " << i << " is not in stage " << part.from;
        holders[i].insert(part.to);
      }
    }
  }
  for (size_t s = 0; s < split.stages.size(); ++s) {
    const Range& chunks = split.stages[s].chunks;
    const int64_t end =
        std::min(chunks.end * layout.chunk_elements(), layout.arena_elements());
    for (int64_t i = chunks.begin * layout.chunk_elements(); i < end; ++i) {
      EXPECT_EQ(holders[i], std::set<int>{static_cast<int>(s)})
          << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StageSplitTest, testing::Range(0, 100));

TEST(StageSplitTest, CutsMustAscendWithinTheNetwork) {
  const Graph graph = RandomLinears(/*seed=*/1, /*layers=*/4);
  const ArenaLayout layout = LayoutOf(graph, 64);
  for (const std::vector<int>& cuts :
       {std::vector<int>{0}, {4}, {2, 2}, {3, 1}, {-1}}) {
    EXPECT_EQ(SplitIntoStages(graph, layout, cuts).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tributary
