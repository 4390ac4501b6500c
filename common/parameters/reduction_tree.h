// The fixed binary tree in which the gradients of a step's leaves are added.
// Nodes are numbered as in a heap: 1 is the root, the children of n are 2n and
// 2n + 1, leaf m of L (a power of two) is L + m. Because every sum follows the
// tree, its bits do not depend on which worker computed which leaf.
#ifndef TRIBUTARY_COMMON_PARAMETERS_REDUCTION_TREE_H_
#define TRIBUTARY_COMMON_PARAMETERS_REDUCTION_TREE_H_

#include <cstdint>
#include <vector>

namespace tributary {

struct LeafRange {
  int begin = 0;
  int end = 0;  // Half open.
};

inline bool IsNode(int node, int leaves) {
  return node >= 1 && node < 2 * leaves;
}

// The leaves under `node`, which must be one of the tree's.
LeafRange LeavesUnder(int node, int leaves);

// The fewest nodes whose leaves are exactly `range`, from left to right: what a
// worker that owns `range` contributes.
std::vector<int> MaximalSubtrees(LeafRange range, int leaves);
// The same for some of the leaves, ascending.
std::vector<int> MaximalSubtreesOf(const std::vector<int64_t>& some,
                                   int leaves);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_REDUCTION_TREE_H_
