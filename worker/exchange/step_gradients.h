// Summation and sending of the gradients of a worker's micro-batches, chunk by
// chunk while backward is still running.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STEP_GRADIENTS_H_
#define TRIBUTARY_WORKER_EXCHANGE_STEP_GRADIENTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/numerics/half.h"
#include "common/numerics/loss_sum.h"
#include "common/optimizer/stated_rates.h"
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
  LossSum loss_sum;
  // Norm of the mean gradient of the batch. 0 unless Plan::awaits_norm is true.
  double gradient_norm = 0;
  // If not null, the exchange's ReductionStream is still adding up the sum:
  // other streams may read it when this event is reached. Until then, the
  // stream reads the arenas `summands`.
  std::shared_ptr<Event> ready = nullptr;
  std::vector<Buffer> summands = {};
};

// Sends the gradient sums of some chunks, or of all. Thread-safe.
class GradientSender {
 public:
  virtual ~GradientSender() = default;
  // Sends the sum of one node of the reduction tree for one chunk, computed in
  // step `step`. Keeps a reference to the sum's arena until the sum has been
  // sent. The chunks of a node must be pushed in the order of backward, chunk 0
  // last: the sender may announce several chunks in one message, and takes the
  // push of its first chunk for the end of backward, when it sends the rest.
  virtual void Push(int64_t step, NodeChunk sum) = 0;
};

// Takes the gradients of one step's micro-batches, adds them up along the
// reduction tree, a binary tree whose leaves are the micro-batches, and sends
// the sums. Thread-safe.
class StepGradients {
 public:
  // What the steps of a job have in common.
  struct Plan {
    const ArenaLayout* layout = nullptr;  // Must outlive the StepGradients.
    int tree_leaves = 0;
    // Leaves and sums are rounded to this format, except for a leaf that is
    // sent individually: the receiver rounds it, which yields the same bits and
    // saves a pass over the memory.
    WireDtype dtype = ExchangeSpec::FLOAT32;
    // If true, each sum is sent with the norm of the gradient of the whole
    // batch, which all micro-batches of the step must form: chunks are held
    // back until all of them are there.
    bool awaits_norm = false;
    // If false, only the receiver adds: every node is sent as it is.
    bool adds = true;
    // If not null, arenas are in its device's memory and `dtype` must be
    // FLOAT32. The device may then still have to add when a sum is sent: see
    // NodeChunk::ready.
    ReductionStream* device = nullptr;
    // Receives the learning rates that the program states, which the senders
    // read. Null if it cannot state any.
    StatedRates* rates = nullptr;
  };
  // Returns the sender of a chunk.
  using Senders = std::function<GradientSender*(int chunk)>;
  // `micro_batches` lists the micro-batches of step `step`, in ascending order.
  // Each run of consecutive micro-batches is covered by the fewest possible
  // nodes of the tree. The sum of each of these nodes is pushed to its sender
  // once for each chunk, on the thread that passes the last summand or, if sums
  // await the norm, for all chunks, last chunk first, on the thread that passes
  // the last one.
  StepGradients(const Plan& plan, int64_t step,
                const std::vector<int64_t>& micro_batches, Senders senders);

  // States the learning rate of the step. Call it before Ready. Returns
  // InvalidArgument if the job does not permit it, or if the program has stated
  // another one.
  absl::Status SetLearningRate(double rate) const;
  // Takes the final gradients of one chunk for a leaf of the reduction tree, or
  // for a node whose leaves have been added up and rounded in the same way (see
  // DeviceSums). This object may modify the arena.
  void Ready(NodeChunk sum) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the leaf of the reduction tree for a micro-batch.
  int NodeOf(int micro_batch) const { return plan_.tree_leaves + micro_batch; }

 private:
  // Adds `sum` to `sibling`, the sum of the sibling node in the reduction tree.
  void Add(NodeChunk sum, NodeChunk* sibling);
  void AddOnDevice(NodeChunk sum, NodeChunk* sibling);
  // Sends a sum that is complete, or holds it back.
  void SendOrHold(NodeChunk sum) ABSL_LOCKS_EXCLUDED(mu_);
  void Send(NodeChunk sum) const {
    senders_(sum.chunk)->Push(step_, std::move(sum));
  }
  // Returns the norm of the mean of a batch with these chunks, whose squares
  // are added in the order of the chunks.
  double NormOf(const std::vector<NodeChunk>& sums) const;

  const Plan plan_;
  const int64_t step_;
  const Senders senders_;
  std::set<int> tops_;  // The nodes whose sums are sent.

  absl::Mutex mu_;
  // Sums whose sibling node has no sum yet, by (chunk, node).
  std::map<std::pair<int, int>, NodeChunk> waiting_ ABSL_GUARDED_BY(mu_);
  // Sums that await the norm, by chunk.
  std::vector<NodeChunk> held_ ABSL_GUARDED_BY(mu_);
  int missing_ ABSL_GUARDED_BY(mu_);  // Chunks that held_ lacks.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STEP_GRADIENTS_H_
