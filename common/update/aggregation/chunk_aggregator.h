// Collects the contributions to one chunk's step until they cover the reduction
// tree, and adds them up in the tree's order.
#ifndef TRIBUTARY_COMMON_UPDATE_AGGREGATION_CHUNK_AGGREGATOR_H_
#define TRIBUTARY_COMMON_UPDATE_AGGREGATION_CHUNK_AGGREGATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/numerics/half.h"
#include "common/numerics/loss_sum.h"
#include "common/update/aggregation/gradient_source.h"

namespace tributary {

// A contribution to one chunk: the sum of the chunk's gradients under one node
// of the reduction tree. This binary tree defines the order in which gradients
// are added; its leaves are the micro-batches of a step.
struct NodeSum {
  int64_t step = 0;
  int node = 1;
  std::shared_ptr<const GradientSource> gradient;
  int64_t sample_count = 0;  // Number of samples (for text, tokens) in the sum.
  LossSum loss_sum;          // Loss summed over the same samples.
  // Incarnation of the worker that sent the contribution: the number that this
  // worker got when it joined.
  int64_t contributor = 0;
  // `base_version` and `gradient_norm` are copied from the fields of the
  // message Contribution with these names. They are used only in mode
  // `asynchronous`.
  int64_t base_version = 0;
  double gradient_norm = 0;
  // The learning rate that the worker states for the step; absent: none.
  std::optional<double> learning_rate;
  // WeightsSubscriber::id of the session with the worker that sent the
  // contribution; 0 if there is none. In mode `asynchronous`, the outcome goes
  // to this session.
  int64_t sender = 0;
};

// The contributions to one chunk in one step, which together cover the
// reduction tree. Their sum is never stored as a whole: callers read the sum
// block by block, so that each block stays in the cache. The caller does the
// last addition, of the root's two children, in the same loop as the update,
// which uses the memory bandwidth better than two loops. With a 16-bit
// exchange.wire_dtype, the sum of every node is rounded, including the root, so
// Read does the last addition too.
class TreeSum {
 public:
  // Elements per block: few enough that the L1 cache holds all arrays of an
  // update. A multiple of 16.
  static constexpr int64_t kBlock = 1024;

  TreeSum() = default;
  // Returns a sum of one contribution, which covers the whole tree.
  static TreeSum Of(std::shared_ptr<const GradientSource> gradient);

  int64_t sample_count() const { return sample_count_; }
  LossSum loss_sum() const { return loss_sum_; }
  // Returns the incarnation (the number that a worker got when it joined) of a
  // worker whose loss is NaN or infinite, or 0 if there is none.
  int64_t nonfinite_loss_contributor() const {
    return nonfinite_loss_contributor_;
  }

  // Sums elements [begin, begin + count), where count is at most kBlock. The
  // result is *half + *other_half, or *half alone if `*other_half` is null; the
  // arrays are valid until the next Read on this thread. (Read has output
  // parameters because the compiler would copy a returned pair with one vector
  // load, which stalls until the stores of its halves are complete.)
  void Read(int64_t begin, int64_t count, const float** half,
            const float** other_half) const;

  // Returns the operations that compute the sum, in post-order, for callers
  // that compute it elsewhere, such as on a GPU. They use a stack of at most
  // depth() arrays: a source pushes its elements, and null replaces the top two
  // arrays with their sum, rounded to dtype().
  absl::Span<const std::shared_ptr<const GradientSource>> steps() const {
    return steps_;
  }
  int depth() const { return depth_; }
  WireDtype dtype() const { return dtype_; }
  // Returns the largest possible depth() (height of the stack) of a sum from a
  // ChunkAggregator with `leaves` leaves (micro-batches).
  static int MostDepth(int leaves);

  // The position of a NaN or infinite element, and the incarnation of the
  // worker that sent the contribution that contains it. Both are 0 if there is
  // no such element.
  struct Nonfinite {
    int64_t element = 0;
    int64_t contributor = 0;
  };
  // Returns the first of the `elements` elements that is NaN or infinite in any
  // contribution. If there is none, returns the first in the sum, with
  // contributor 0.
  Nonfinite FindNonfinite(int64_t elements) const;
  // Returns the incarnation of the worker that sent the first contribution
  // whose gradient `is_wanted` selects; 0 if there is none.
  int64_t FindContributor(
      const std::function<bool(const GradientSource&)>& is_wanted) const;

 private:
  friend class ChunkAggregator;

  std::vector<std::shared_ptr<const GradientSource>> steps_;
  // Incarnations of the workers that sent the sources in steps_, in the order
  // of these sources.
  std::vector<int64_t> contributors_;
  int depth_ = 0;
  WireDtype dtype_ = ExchangeSpec::FLOAT32;
  int64_t sample_count_ = 0;
  LossSum loss_sum_;
  int64_t nonfinite_loss_contributor_ = 0;
};

// Collects the contributions to one chunk in one step. Not thread-safe. Holds
// at most one contribution of each worker per leaf (micro-batch).
//
// Contributions of different nodes may overlap if leaves were reassigned during
// the step and two workers computed the same leaves. Both computed the same
// bits, so either contribution may be used. Both are kept, because the
// contributions of one of the workers may still be dropped (see DropFrom), and
// a worker sends each node only once. A contribution whose leaves are already
// covered by contributions of the same worker is a duplicate.
class ChunkAggregator {
 public:
  // `leaves` must be a power of two. Sums are rounded to `dtype`. Contributions
  // must already be rounded to `dtype`.
  ChunkAggregator(int leaves, WireDtype dtype);

  // Adds a contribution and returns true. Drops a duplicate and returns false.
  // `sum.node` must be a node of the reduction tree.
  bool Add(NodeSum sum);
  // Drops all contributions of this worker.
  void DropFrom(int64_t contributor);
  // Returns the first leaf that no contribution covers; nullopt if there is
  // none.
  std::optional<int> FirstMissing() const;

  // Returns true if the contributions cover every leaf (micro-batch of the
  // step), so that Take may be called.
  bool complete() const { return covered_[1]; }

  // Returns the contributions to the step, and empties the aggregator for the
  // next step. Call it only if complete() is true.
  TreeSum Take();

 private:
  // Moves the contributions of `node` and the nodes below it to `*sum`.
  // `height` is the height of the stack (see TreeSum::steps) with the sum of
  // `node` on top. Returns the sum of their losses, added in the order of the
  // reduction tree.
  LossSum TakeUnder(int node, int height, TreeSum* sum);
  // Returns true if the worker has contributed to `node`.
  bool Has(int node, int64_t contributor) const;
  // Returns true if the worker has contributed to `node`, or to nodes below it
  // that cover it.
  bool Covers(int node, int64_t contributor) const;
  // Drops the worker's contributions to nodes below `node`.
  void DropUnder(int node, int64_t contributor);
  // Updates covered_ of the nodes above `node`.
  void CoverAbove(int node);

  const int leaves_;
  const WireDtype dtype_;
  // The next two fields are indexed by node of the reduction tree; index 0 is
  // unused. sums_[n] has at most one contribution of each worker, and rarely
  // more than one at all. covered_[n] is true if there is a contribution to
  // node n or both children of n are covered.
  std::vector<std::vector<NodeSum>> sums_;
  std::vector<bool> covered_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_AGGREGATION_CHUNK_AGGREGATOR_H_
