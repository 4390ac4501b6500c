#include "common/parameters/reduction_tree.h"

#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(ReductionTree, NumbersNodesLikeAHeap) {
  EXPECT_EQ(LeavesUnder(1, 8).begin, 0);
  EXPECT_EQ(LeavesUnder(1, 8).end, 8);
  EXPECT_EQ(LeavesUnder(5, 8).begin, 2);
  EXPECT_EQ(LeavesUnder(5, 8).end, 4);
  EXPECT_EQ(LeavesUnder(15, 8).begin, 7);
  EXPECT_EQ(LeavesUnder(15, 8).end, 8);
  EXPECT_FALSE(IsNode(0, 8));
  EXPECT_TRUE(IsNode(15, 8));
  EXPECT_FALSE(IsNode(16, 8));
}

TEST(ReductionTree, WholeTreeIsItsRoot) {
  for (int leaves = 1; leaves <= 64; leaves *= 2) {
    EXPECT_EQ(MaximalSubtrees({0, leaves}, leaves), std::vector<int>{1});
  }
}

TEST(ReductionTree, EmptyRangeHasNoNodes) {
  EXPECT_TRUE(MaximalSubtrees({3, 3}, 8).empty());
}

TEST(ReductionTree, SubtreesCoverExactlyTheRangeWithTheFewestNodes) {
  constexpr int kLeaves = 16;
  for (int begin = 0; begin <= kLeaves; ++begin) {
    for (int end = begin; end <= kLeaves; ++end) {
      const std::vector<int> nodes = MaximalSubtrees({begin, end}, kLeaves);
      int next = begin;
      for (const int node : nodes) {
        const LeafRange under = LeavesUnder(node, kLeaves);
        EXPECT_EQ(under.begin, next);
        next = under.end;
      }
      EXPECT_EQ(next, end);
      // Fewest: no two of them are siblings.
      for (size_t i = 1; i < nodes.size(); ++i) {
        EXPECT_NE(nodes[i - 1] ^ 1, nodes[i]) << begin << " " << end;
      }
    }
  }
}

TEST(MaximalSubtreesOfTest, EachRunOfNeighboursIsARangeOfItsOwn) {
  EXPECT_EQ(MaximalSubtreesOf({0, 1, 2, 5, 6, 7}, 8),
            (std::vector<int>{4, 10, 13, 7}));
  EXPECT_EQ(MaximalSubtreesOf({0, 1, 2, 3}, 4), std::vector<int>{1});
  EXPECT_TRUE(MaximalSubtreesOf({}, 4).empty());
}

}  // namespace
}  // namespace tributary
