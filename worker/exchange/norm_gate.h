// Keeps a batch's gradients back until their norm is known, which in
// asynchronous mode goes with them.
#ifndef TRIBUTARY_WORKER_EXCHANGE_NORM_GATE_H_
#define TRIBUTARY_WORKER_EXCHANGE_NORM_GATE_H_

#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/numerics/half.h"
#include "common/parameters/parameter_table.h"
#include "worker/exchange/subtree_reducer.h"

namespace tributary {

// For one step. Add may be called from several threads at once.
class NormGate {
 public:
  // `layout` must outlive this object. The norm is that of the sums rounded to
  // `dtype`, as servers get them. `send` gets every chunk, the last one
  // first, on the thread that brought what was missing.
  NormGate(const ArenaLayout* layout, WireDtype dtype,
           std::function<void(NodeChunk)> send);

  // Takes the whole batch's sum for one chunk. The last of them sends all, with
  // the norm of the batch's mean gradient: squares are added in the order of
  // chunks.
  void Add(NodeChunk sum) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const ArenaLayout* const layout_;
  const WireDtype dtype_;
  const std::function<void(NodeChunk)> send_;

  absl::Mutex mu_;
  std::vector<NodeChunk> sums_ ABSL_GUARDED_BY(mu_);  // By chunk.
  int missing_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_NORM_GATE_H_
