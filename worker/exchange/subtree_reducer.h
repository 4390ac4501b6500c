// Summation of the gradients of a worker's micro-batches along the reduction
// tree, chunk by chunk while backward is still running.
#ifndef TRIBUTARY_WORKER_EXCHANGE_SUBTREE_REDUCER_H_
#define TRIBUTARY_WORKER_EXCHANGE_SUBTREE_REDUCER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/numerics/half.h"
#include "common/parameters/arena_layout.h"
#include "worker/device/copies.h"
#include "worker/device/reduction_stream.h"

namespace tributary {

// The gradient sum of one node of the reduction tree, for one chunk of the
// parameters.
struct NodeChunk {
  int node = 0;
  int chunk = 0;
  // An arena (a buffer for the whole model) that holds the sum: the chunk's
  // elements start at index layout.ChunkBegin(chunk). The arena does not change
  // while this reference is held.
  Buffer arena;
  int64_t sample_count = 0;
  double loss_sum = 0;
  // The version of the weights from which the gradient was computed. Used in
  // asynchronous mode only; see the message Contribution.
  int64_t base_version = 0;
  // Norm of the mean gradient of the batch. 0 unless a NormGate has set it.
  double gradient_norm = 0;
  // If not null, the exchange's ReductionStream is still adding up the sum:
  // other streams may read it when this event is reached. Until then, the
  // stream reads the arenas `summands`.
  std::shared_ptr<Event> ready = nullptr;
  std::vector<Buffer> summands = {};
};

// Sums the gradients of one step's micro-batches along the reduction tree, a
// binary tree whose leaves are the micro-batches. ChunkReady and NodeReady may
// be called from several threads at once.
class SubtreeReducer {
 public:
  // `layout` must outlive this object. `micro_batches` lists the micro-batches
  // to sum, in ascending order; the tree has `tree_leaves` leaves. Each run of
  // consecutive micro-batches is covered by the fewest possible nodes of the
  // tree.
  // `send` is called with the sum of each of these nodes once for each chunk,
  // on the thread that passes the last summand. It must be thread-safe. Leaves
  // and sums are rounded to `dtype`, except for a leaf that is sent
  // individually: the receiver rounds it, which yields the same bits and saves
  // a pass over the memory. If `device` is not null, arenas are in its memory
  // and `dtype` must be FLOAT32. The device may then still have to add when
  // `send` is called: see NodeChunk::ready.
  SubtreeReducer(const ArenaLayout* layout, int tree_leaves, WireDtype dtype,
                 const std::vector<int64_t>& micro_batches,
                 std::function<void(NodeChunk)> send,
                 ReductionStream* device = nullptr);

  // Passes the final gradient of `micro_batch` for `chunk`. `arena` is a
  // gradient arena that this object may modify. `sample_count` and `loss_sum`
  // are the sample count and the sum of the losses of the micro-batch;
  // `loss_sum` is used for chunk 0 only.
  void ChunkReady(int micro_batch, int chunk, Buffer arena,
                  int64_t sample_count, double loss_sum)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Like ChunkReady, for a node of the reduction tree whose micro-batches have
  // already been summed and rounded in the same way (see DeviceSums).
  void NodeReady(NodeChunk sum) ABSL_LOCKS_EXCLUDED(mu_);
  // Sends the sum of a node as it is, even if the sum of its sibling is also
  // passed to this object. Used for sums in device memory, which only the
  // server can add. Either all sums of a step or none must be passed in this
  // way.
  void Send(NodeChunk sum) const { send_(std::move(sum)); }

 private:
  // Adds `sum` to `sibling`, the sum of the sibling node in the reduction tree.
  void Add(NodeChunk sum, NodeChunk* sibling);
  void AddOnDevice(NodeChunk sum, NodeChunk* sibling);

  const ArenaLayout* const layout_;
  const int tree_leaves_;
  const WireDtype dtype_;
  const std::function<void(NodeChunk)> send_;
  ReductionStream* const device_;
  std::set<int> tops_;  // The nodes whose sums are sent.

  absl::Mutex mu_;
  // Sums whose sibling node has no sum yet, by (chunk, node).
  std::map<std::pair<int, int>, NodeChunk> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_SUBTREE_REDUCER_H_
