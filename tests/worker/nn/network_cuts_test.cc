#include "worker/nn/network_cuts.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/residual.h"

namespace tributary {
namespace {

constexpr int64_t kWidth = 4;

// A block of a transformer without attention, and an output:
//   0 "in", 1 "norm", 2 "up", 3 "gelu", 4 "down", 5 "sum", 6 "out".
Graph BlockGraph() {
  const auto linear = [] {
    return std::make_unique<Linear>(Linear::FanInOptions(kWidth, kWidth));
  };
  Graph graph(kWidth);
  const ValueId in = graph.Add("in", linear(), {0});
  ValueId x =
      graph.Add("norm", std::make_unique<LayerNorm>(1, kWidth, true), {in});
  x = graph.Add("up", linear(), {x});
  x = graph.Add("gelu", std::make_unique<Gelu>(kWidth), {x});
  x = graph.Add("down", linear(), {x});
  x = graph.Add("sum", std::make_unique<Residual>(kWidth), {in, x});
  x = graph.Add("out", linear(), {x});
  graph.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, kWidth}, x);
  return graph;
}

TEST(NetworkCutsTest, LayersThatComputeGeluTogetherStayTogether) {
  EXPECT_EQ(AllowedCuts(BlockGraph()),
            (std::vector<bool>{false, true, true, false, false, true, true}));
}

TEST(NetworkCutsTest, ValuesCrossUntilTheirLastReader) {
  const Graph graph = BlockGraph();
  ASSERT_TRUE(graph.status().ok());
  EXPECT_EQ(CrossingValues(graph, 1), (std::vector<ValueId>{1}));
  // The residual connection skips the block.
  EXPECT_EQ(CrossingValues(graph, 2), (std::vector<ValueId>{1, 2}));
  EXPECT_EQ(CrossingValues(graph, 5), (std::vector<ValueId>{1, 5}));
  EXPECT_EQ(CrossingValues(graph, 6), (std::vector<ValueId>{6}));
  EXPECT_EQ(CrossingValues(graph, 7), std::vector<ValueId>());
}

// The loss reads the value "early" behind the last layer.
TEST(NetworkCutsTest, TheLossReadsItsInputLast) {
  Graph graph(kWidth);
  const auto linear = [] {
    return std::make_unique<Linear>(Linear::FanInOptions(kWidth, kWidth));
  };
  const ValueId early = graph.Add("early", linear(), {0});
  const ValueId late = graph.Add("late", linear(), {early});
  graph.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, kWidth}, early);
  EXPECT_EQ(CrossingValues(graph, late - 1), (std::vector<ValueId>{early}));
}

TEST(NetworkCutsTest, BlocksEndWhereOneValueCrosses) {
  const Graph graph = BlockGraph();
  EXPECT_EQ(BlockEnds(graph, 0, 7), (std::vector<int>{1, 6, 7}));
  EXPECT_EQ(BlockEnds(graph, 2, 6), (std::vector<int>{6}));
}

}  // namespace
}  // namespace tributary
