// Collects the contributions to one chunk's step until they cover the reduction
// tree, then adds them up in the tree's order.
#ifndef TRIBUTARY_SERVER_CHUNK_AGGREGATOR_H_
#define TRIBUTARY_SERVER_CHUNK_AGGREGATOR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/buffer_pool.h"

namespace tributary {

// The gradient sum of one node for one chunk. The aggregator that is given one
// owns its buffer's contents.
struct NodeSum {
  Buffer gradient;
  int64_t weight = 0;   // Samples (tokens) in the sum.
  double loss_sum = 0;  // Of the same samples.
};

// Not thread-safe. Holds at most one buffer per leaf.
//
// Contributions of different nodes may overlap, when leaves were dealt anew in
// mid-step and two workers computed the same ones: overlapping sums have the
// same bits wherever they overlap, so any of them may be used. What is covered
// already is a duplicate.
class ChunkAggregator {
 public:
  // `leaves` is a power of two.
  explicit ChunkAggregator(int leaves);

  // False for a duplicate, which is dropped. `node` must be one of the tree's.
  bool Add(int node, NodeSum sum);

  // Every leaf is covered: Finish may be called.
  bool complete() const { return covered_[1]; }

  // Adds up `elements` floats of every contribution, in the order of the tree,
  // and forgets them: the aggregator is empty again.
  NodeSum Finish(int64_t elements);

 private:
  NodeSum SumUnder(int node, int64_t elements);
  void DropUnder(int node);

  const int leaves_;
  // By node; index 0 is unused. A node is covered if it was contributed or both
  // its children are covered.
  std::vector<std::optional<NodeSum>> sums_;
  std::vector<bool> covered_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHUNK_AGGREGATOR_H_
