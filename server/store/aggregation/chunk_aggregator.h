// Collects the contributions to one chunk's step until they cover the reduction
// tree, and adds them up in the tree's order.
#ifndef TRIBUTARY_SERVER_STORE_AGGREGATION_CHUNK_AGGREGATOR_H_
#define TRIBUTARY_SERVER_STORE_AGGREGATION_CHUNK_AGGREGATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/numerics/half.h"
#include "server/store/aggregation/gradient_source.h"

namespace tributary {

// The gradient sum of one node for one chunk.
struct NodeSum {
  std::shared_ptr<const GradientSource> gradient;
  int64_t sample_count = 0;  // Samples (tokens) in the sum.
  double loss_sum = 0;       // Of the same samples.
  int64_t contributor = 0;   // Incarnation of the worker that sent it.
};

// Contributions that cover the tree. Their sum is never stored: whoever needs
// it reads it block by block, so that it stays in the cache. The upper two of
// the tree's sums are not even added: the update does that on the way, because
// a loop that reads many arrays at once gets more out of the memory than two
// loops that read few. With a 16-bit exchange.wire_dtype every node of the tree
// is rounded, the root included, so that one is added here.
class TreeSum {
 public:
  // Elements that are added up at a time: few enough for a core's first cache
  // to hold all arrays of an update. A multiple of 16.
  static constexpr int64_t kBlock = 1024;

  TreeSum() = default;

  int64_t sample_count() const { return sample_count_; }
  double loss_sum() const { return loss_sum_; }
  // A contributor whose loss is NaN; 0 if there is none.
  int64_t nan_loss_contributor() const { return nan_loss_contributor_; }
  bool empty() const { return steps_.empty(); }

  // Where the sum of elements [begin, begin + count), count at most kBlock, is
  // until the next Read on this thread: the last addition is left to the
  // reader, unless `*other_half` is null. (Pointers to where they are used: a
  // returned pair is copied as one vector, which has to wait for all stores
  // before it to reach memory.)
  void Read(int64_t begin, int64_t count, const float** half,
            const float** other_half) const;

  // What Read adds up, for those who do it elsewhere. In post-order: a source
  // is put on a stack, which is never higher than depth(); null adds the upper
  // two of the stack, rounded to dtype().
  absl::Span<const std::shared_ptr<const GradientSource>> steps() const {
    return steps_;
  }
  int depth() const { return depth_; }
  WireDtype dtype() const { return dtype_; }
  // Of the sums that a ChunkAggregator makes.
  static int MostDepth(int leaves);

  // The first element, of `elements`, that is NaN or infinite in a
  // contribution. Contributor 0 and element 0 if there is none.
  struct Nonfinite {
    int64_t element = 0;
    int64_t contributor = 0;
  };
  Nonfinite FindNonfinite(int64_t elements) const;

 private:
  friend class ChunkAggregator;

  std::vector<std::shared_ptr<const GradientSource>> steps_;
  std::vector<int64_t> contributors_;  // Of the sources, in their order.
  int depth_ = 0;
  WireDtype dtype_ = ExchangeSpec::FLOAT32;
  int64_t sample_count_ = 0;
  double loss_sum_ = 0;
  int64_t nan_loss_contributor_ = 0;
};

// Not thread-safe. Holds at most one contribution per leaf.
//
// Contributions of different nodes may overlap, when leaves were dealt anew in
// mid-step and two workers computed the same ones: overlapping sums have the
// same bits wherever they overlap, so any of them may be used. What is covered
// already is a duplicate.
class ChunkAggregator {
 public:
  // `leaves` is a power of two. Sums are rounded to `dtype`, as contributions
  // must be.
  ChunkAggregator(int leaves, WireDtype dtype);

  // False for a duplicate, which is dropped. `node` must be one of the tree's.
  bool Add(int node, NodeSum sum);

  // Every leaf is covered: Take may be called.
  bool complete() const { return covered_[1]; }

  // Gives the contributions away: the aggregator is empty again.
  TreeSum Take();

 private:
  // Appends what lies under `node` to the sum; weight and loss of it.
  NodeSum TakeUnder(int node, int height, TreeSum* sum);
  void DropUnder(int node);

  const int leaves_;
  const WireDtype dtype_;
  // By node; index 0 is unused. A node is covered if it was contributed or both
  // its children are covered.
  std::vector<std::optional<NodeSum>> sums_;
  std::vector<bool> covered_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_AGGREGATION_CHUNK_AGGREGATOR_H_
