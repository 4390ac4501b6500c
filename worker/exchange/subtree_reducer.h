// Adds up a worker's own leaves, chunk by chunk while backward is still
// running, in the order of the reduction tree.
#ifndef TRIBUTARY_WORKER_EXCHANGE_SUBTREE_REDUCER_H_
#define TRIBUTARY_WORKER_EXCHANGE_SUBTREE_REDUCER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/numerics/half.h"
#include "common/parameters/parameter_table.h"

namespace tributary {

// The sum of one node for one chunk.
struct NodeChunk {
  int node = 0;
  int chunk = 0;
  // The chunk's elements are at layout.ChunkBegin(chunk) of this arena, which
  // stays unchanged as long as it is held.
  Buffer arena;
  int64_t sample_count = 0;
  double loss_sum = 0;
  // Asynchronous mode only: see Contribution.
  int64_t base_version = 0;
  double gradient_norm = 0;
};

// For one step and one set of leaves. ChunkReady and NodeReady may be called
// from several threads at once.
class SubtreeReducer {
 public:
  // `layout` must outlive this object. Of the ascending `leaves` (of a tree
  // with `tree_leaves`), each run of neighbours becomes the fewest possible
  // nodes. `send` gets every sum of such a node once, on the thread that
  // completed it; it must be thread-safe. Leaves and sums are rounded to
  // `dtype`, but for leaves that are sent by themselves: whoever reads them
  // rounds them, which gives the same bits without a pass of its own.
  SubtreeReducer(const ArenaLayout* layout, int tree_leaves, WireDtype dtype,
                 const std::vector<int64_t>& leaves,
                 std::function<void(NodeChunk)> send);

  // The gradient of `leaf` for `chunk` is final in `arena`, a gradient arena of
  // its own that this object may add to. `loss_sum` matters for chunk 0 only.
  void ChunkReady(int leaf, int chunk, Buffer arena, int64_t sample_count,
                  double loss_sum) ABSL_LOCKS_EXCLUDED(mu_);
  // The same for a node whose leaves have been added up elsewhere, rounded as
  // here (see DeviceSums).
  void NodeReady(NodeChunk sum) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const ArenaLayout* const layout_;
  const int tree_leaves_;
  const WireDtype dtype_;
  const std::function<void(NodeChunk)> send_;
  std::set<int> tops_;

  absl::Mutex mu_;
  // Sums that wait for their sibling, by (chunk, node).
  std::map<std::pair<int, int>, NodeChunk> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_SUBTREE_REDUCER_H_
