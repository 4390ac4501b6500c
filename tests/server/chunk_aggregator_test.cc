#include "server/chunk_aggregator.h"

#include <algorithm>
#include <random>
#include <vector>

#include "common/reduction_tree.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int kLeaves = 8;
constexpr int kElements = 5;

// Values whose sum depends on the order of additions.
float LeafValue(int leaf, int element) {
  const float scale[] = {1e8f, 1.f, -1e8f, 0.1f, 3e7f, -7.f, 1e-3f, 5e6f};
  return scale[leaf] * (1.f + 0.1f * static_cast<float>(element));
}

// The sum under a node, in the order of the tree, written down independently.
float TreeSum(int node, int element) {
  if (node >= kLeaves) return LeafValue(node - kLeaves, element);
  return TreeSum(2 * node, element) + TreeSum(2 * node + 1, element);
}

NodeSum Contribution(BufferPool* pool, int node) {
  NodeSum sum;
  sum.gradient = pool->Take();
  for (int i = 0; i < kElements; ++i) sum.gradient.get()[i] = TreeSum(node, i);
  const LeafRange leaves = LeavesUnder(node, kLeaves);
  sum.weight = 10 * (leaves.end - leaves.begin);
  sum.loss_sum = leaves.begin;
  return sum;
}

void ExpectTotal(ChunkAggregator* aggregator) {
  ASSERT_TRUE(aggregator->complete());
  const NodeSum total = aggregator->Finish(kElements);
  for (int i = 0; i < kElements; ++i) {
    EXPECT_EQ(total.gradient.get()[i], TreeSum(1, i));
  }
  EXPECT_EQ(total.weight, 10 * kLeaves);
  EXPECT_FALSE(aggregator->complete());
}

TEST(ChunkAggregator, SumsInTheOrderOfTheTreeWhateverTheArrivalAndTheNodes) {
  BufferPool pool(kElements);
  std::mt19937 random(1);
  ChunkAggregator aggregator(kLeaves);
  for (int trial = 0; trial < 200; ++trial) {
    // Cut the leaves into random runs, as random workers would own them.
    std::vector<int> nodes;
    for (int begin = 0; begin < kLeaves;) {
      const int end =
          begin + 1 + static_cast<int>(random() % (kLeaves - begin));
      for (const int node : MaximalSubtrees({begin, end}, kLeaves)) {
        nodes.push_back(node);
      }
      begin = end;
    }
    std::shuffle(nodes.begin(), nodes.end(), random);
    for (const int node : nodes) {
      EXPECT_FALSE(aggregator.complete());
      EXPECT_TRUE(aggregator.Add(node, Contribution(&pool, node)));
    }
    ExpectTotal(&aggregator);
  }
}

TEST(ChunkAggregator, DropsDuplicates) {
  BufferPool pool(kElements);
  ChunkAggregator aggregator(kLeaves);
  EXPECT_TRUE(aggregator.Add(2, Contribution(&pool, 2)));
  EXPECT_FALSE(aggregator.Add(2, Contribution(&pool, 2)));
  // Under a node that is there.
  EXPECT_FALSE(aggregator.Add(9, Contribution(&pool, 9)));
  // Covered by its two children.
  EXPECT_TRUE(aggregator.Add(6, Contribution(&pool, 6)));
  EXPECT_TRUE(aggregator.Add(7, Contribution(&pool, 7)));
  EXPECT_FALSE(aggregator.Add(3, Contribution(&pool, 3)));
  ExpectTotal(&aggregator);
}

TEST(ChunkAggregator, AcceptsOverlapsOfLeavesThatWereDealtAnew) {
  BufferPool pool(kElements);
  ChunkAggregator aggregator(kLeaves);
  // A worker with leaves 4 to 7 sent part of them and died; another computed
  // all four as one node.
  EXPECT_TRUE(aggregator.Add(12, Contribution(&pool, 12)));
  EXPECT_TRUE(aggregator.Add(3, Contribution(&pool, 3)));
  EXPECT_TRUE(aggregator.Add(4, Contribution(&pool, 4)));
  EXPECT_FALSE(aggregator.complete());
  EXPECT_TRUE(aggregator.Add(5, Contribution(&pool, 5)));
  ExpectTotal(&aggregator);
}

TEST(ChunkAggregator, HandlesATreeOfOneLeaf) {
  BufferPool pool(1);
  ChunkAggregator aggregator(1);
  NodeSum sum;
  sum.gradient = pool.Take();
  sum.gradient.get()[0] = 3;
  sum.weight = 2;
  EXPECT_TRUE(aggregator.Add(1, sum));
  ASSERT_TRUE(aggregator.complete());
  EXPECT_EQ(aggregator.Finish(1).gradient.get()[0], 3);
}

}  // namespace
}  // namespace tributary
