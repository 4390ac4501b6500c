// Holds back a batch's gradients until their norm is known, for asynchronous
// mode, which sends the norm with the gradients.
#ifndef TRIBUTARY_WORKER_EXCHANGE_NORM_GATE_H_
#define TRIBUTARY_WORKER_EXCHANGE_NORM_GATE_H_

#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/numerics/half.h"
#include "common/parameters/arena_layout.h"
#include "worker/exchange/subtree_reducer.h"

namespace tributary {

// Holds back the gradient chunks of one step until Add has been called for all
// of them. Then computes the norm of the whole gradient and sends every chunk
// together with this norm. Add may be called from several threads at once.
class NormGate {
 public:
  // `layout` must outlive this object. The norm is computed from the sums
  // rounded to `dtype`, as servers receive them. `send` receives every chunk,
  // last chunk first, on the thread that adds the final missing chunk.
  NormGate(const ArenaLayout* layout, WireDtype dtype,
           std::function<void(NodeChunk)> send);

  // Takes the gradient sum of the whole batch for one chunk. Once all chunks
  // are present, sends them with the norm of the batch's mean gradient. Squares
  // are added in chunk order.
  void Add(NodeChunk sum) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const ArenaLayout* const layout_;
  const WireDtype dtype_;
  const std::function<void(NodeChunk)> send_;

  absl::Mutex mu_;
  std::vector<NodeChunk> sums_ ABSL_GUARDED_BY(mu_);  // Indexed by chunk.
  int missing_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_NORM_GATE_H_
