// The fixed binary tree in whose order the gradients of a step are added. Its
// leaves are the micro-batches. Nodes are numbered as in a heap: the root is
// node 1, the children of node n are nodes 2n and 2n + 1, and the leaf of
// micro-batch m is node L + m, where L, a power of two, is the number of
// leaves. Every sum follows the tree, so its bits do not depend on which worker
// computed which leaf.
#ifndef TRIBUTARY_COMMON_PARAMETERS_REDUCTION_TREE_H_
#define TRIBUTARY_COMMON_PARAMETERS_REDUCTION_TREE_H_

#include <cstdint>
#include <vector>

namespace tributary {

struct LeafRange {
  int begin = 0;
  int end = 0;  // The first leaf after the range.
};

inline bool IsNode(int node, int leaves) {
  return node >= 1 && node < 2 * leaves;
}

// Returns the leaves below `node` (for a leaf, the leaf itself) in a tree of
// `leaves` leaves. The gradients of a step's micro-batches are added in the
// order of this binary tree, whose leaves are the micro-batches.
LeafRange LeavesUnder(int node, int leaves);

// Returns, from left to right, the smallest set of nodes of the reduction tree
// whose leaves (micro-batches) together are exactly `range`. A worker
// that computes the micro-batches in `range` sends one gradient sum for each of
// these nodes. The tree has `leaves` leaves.
std::vector<int> MaximalSubtrees(LeafRange range, int leaves);
// Returns, from left to right, the smallest set of nodes of the reduction tree
// whose leaves (micro-batches) together are exactly the leaves in `some`.
// `some` must be in ascending order. The tree has `leaves` leaves.
std::vector<int> MaximalSubtreesOf(const std::vector<int64_t>& some,
                                   int leaves);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_REDUCTION_TREE_H_
