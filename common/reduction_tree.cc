#include "common/reduction_tree.h"

namespace tributary {

LeafRange LeavesUnder(int node, int leaves) {
  int begin = node;
  int count = 1;
  while (begin < leaves) {
    begin *= 2;
    count *= 2;
  }
  return {begin - leaves, begin - leaves + count};
}

std::vector<int> MaximalSubtrees(LeafRange range, int leaves) {
  std::vector<int> nodes;
  for (int leaf = range.begin; leaf < range.end;) {
    int node = leaves + leaf;
    int width = 1;
    // Climb while this is a left child and the parent's leaves still lie in the
    // range.
    while (node > 1 && node % 2 == 0 && leaf + 2 * width <= range.end) {
      node /= 2;
      width *= 2;
    }
    nodes.push_back(node);
    leaf += width;
  }
  return nodes;
}

}  // namespace tributary
