#include "common/parameters/reduction_tree.h"

#include <cstddef>

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
    // Climb while this node is a left child and the parent's leaves are within
    // the range.
    while (node > 1 && node % 2 == 0 && leaf + 2 * width <= range.end) {
      node /= 2;
      width *= 2;
    }
    nodes.push_back(node);
    leaf += width;
  }
  return nodes;
}

std::vector<int> MaximalSubtreesOf(const std::vector<int64_t>& some,
                                   int leaves) {
  std::vector<int> nodes;
  for (size_t i = 0; i < some.size();) {
    size_t j = i + 1;
    while (j < some.size() && some[j] == some[j - 1] + 1) ++j;
    const LeafRange run = {static_cast<int>(some[i]),
                           static_cast<int>(some[j - 1]) + 1};
    for (const int node : MaximalSubtrees(run, leaves)) nodes.push_back(node);
    i = j;
  }
  return nodes;
}

}  // namespace tributary
