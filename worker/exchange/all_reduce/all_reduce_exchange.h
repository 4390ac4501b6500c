// Exchange without parameter servers: every worker keeps the weights and runs
// the optimizer, as in PyTorch's DistributedDataParallel.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/base/thread.h"
#include "common/numerics/loss_sum.h"
#include "common/optimizer/program_rule.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/reduction_tree.h"
#include "common/parameters/snapshot.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/device/reduction_stream.h"
#include "worker/exchange/all_reduce/chunk_routes.h"
#include "worker/exchange/all_reduce/member_optimizer.h"
#include "worker/exchange/chunk_latency.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/exchange_trace.h"
#include "worker/exchange/mesh/device_mesh.h"
#include "worker/exchange/mesh/peer_mesh.h"
#include "worker/state/weights_sink.h"

namespace tributary {

// Performs an all-reduce as a reduce-scatter followed by an all-gather, one
// chunk (a slice of the parameters) at a time. Each of n workers sends and
// receives 2 (n - 1) / n times the size of the model, as in a ring all-reduce
// (Patarasuk and Yuan, 2009), but in two hops for any n.
//
// Gradients are added along the reduction tree, a binary tree whose leaves are
// the micro-batches. One member, the owner of the chunk (see ChunkRoutes),
// reduces it: it receives the gradient sums of all tree nodes that other
// members have computed, and adds them in the order of the tree, which a ring
// cannot do. For any number of workers, the weights are therefore bit-identical
// to the weights that parameter servers compute in synchronous mode.
//
// The all-gather distributes the sum, and every member runs the optimizer on
// all chunks that it reads. With shard_optimizer it distributes new weights
// instead: each member updates its own chunks and keeps their optimizer state,
// which is the first stage of ZeRO (Rajbhandari et al., 2020).
//
// In a pipeline, a member contributes to the chunks of its stages only, and
// reads only these, so that the members with the same stages form an all-reduce
// of their own. All members share the counts of the samples and the sums of
// squares, and thus the norm of the whole gradient. A chunk that stages share
// has one owner, which sends it to the members of all of these stages.
//
// Gradients, weights and the optimizer's state are in host memory, or in the
// memory of a GPU (see CreateOnDevice), where GPUs exchange chunks directly. If
// they are in a GPU's memory, only sums of squares, losses, counts and the
// chunks that Options::save receives pass through the host.
//
// Communication overlaps with backward: a member sends its sums of a chunk
// while backward still computes other chunks. One thread receives, adds,
// updates and forwards chunks. New weights are written to the WeightsSink chunk
// by chunk. Steps follow each other without waiting for the coordinator, to
// which member 0 reports each step.
// What a member tells the others about its part of a step's batch. Sent as it
// is.
struct MemberShare {
  int64_t sample_count = 0;
  // The learning rate that the member's program has stated; negative: none.
  double learning_rate = -1;
};

class AllReduceExchange final : public Exchange, private GradientSender {
 public:
  struct Options {
    JobSpec job;  // The resolved job.
    int64_t steps = 0;
    // First step to compute. Equals the version of the weights with which the
    // exchange starts.
    int64_t first_step = 0;
    int64_t attempt = 0;  // Number of the job's attempt; used by tests only.
    // The state of the optimizer when the weights are at version first_step.
    // Must include all chunks whose optimizer state this member keeps. Unused
    // if first_step is 0.
    Snapshot first;
    // The micro-batches that each member computes in every step, indexed by
    // member. No range is empty.
    std::vector<LeafRange> assignments;
    // In a pipeline, the chunks of each member; see ChunkRoutes. Otherwise
    // empty: every member contributes to all chunks and reads them.
    std::vector<WorkerChunks> chunks;
    // Receives the StepSums of each step (sums over the batch, such as its
    // loss), in the order of the steps, on any thread. Set on member 0 only.
    std::function<void(const StepSums&)> on_sums;
    // Receives copies of the weights and the optimizer state of the chunks that
    // this member reduces, at the versions passed to SaveAt, at the versions
    // that are multiples of keep_every, and at the last version. Called on the
    // exchange's thread. May be null.
    std::function<void(int64_t version, const Snapshot::Chunk&)> save;
    // The interval, in versions, at which `save` receives copies. 0 if it
    // receives none at regular intervals.
    int64_t keep_every = 0;
    // The rule of the program, for jobs with optimizer.program. Must outlive
    // the exchange.
    ProgramRule* rule = nullptr;
    // Records the traced steps. Null if no step is traced. Must outlive the
    // exchange.
    TraceRecorder* trace = nullptr;
    // Pins the memory of gradient arenas, so that GPUs copy to it directly. If
    // null, the memory is not pinned.
    PinMemory pin;
    // For CreateOnDevice: the number of gradient arenas (buffers for the
    // gradients of the whole model) that the trainer uses at a time. If the
    // trainer takes more, the exchange allocates them during a step; such an
    // allocation can wait for other members (see ConnectNcclMesh).
    int arenas = 0;
  };
  // Creates an exchange that works in host memory. `layout` and `sink` must
  // outlive the exchange. Returns InvalidArgument if the assignments do not
  // match the members of the mesh or do not cover the micro-batches of the job,
  // or if only one of optimizer.program and Options::rule is set, and the
  // errors of Optimizer::Create.
  static absl::StatusOr<std::unique_ptr<AllReduceExchange>> Create(
      const Options& options, const ArenaLayout* layout, WeightsSink* sink,
      std::unique_ptr<PeerMesh> mesh);
  // Like Create, but keeps gradients, weights and the optimizer's state in the
  // memory of the GPU that `mesh` and `stream` use. Allocates two arenas
  // there, copies the weights of version first_step into one of them, and makes
  // them the sink's arenas (see WeightsSink::SetArenas). `stream` must have
  // been created with the plan that PlanFor returns. Options::pin is unused.
  // Returns ResourceExhausted if the GPU's memory does not suffice.
  static absl::StatusOr<std::unique_ptr<AllReduceExchange>> CreateOnDevice(
      const Options& options, const ArenaLayout* layout, WeightsSink* sink,
      std::unique_ptr<DeviceMesh> mesh,
      std::unique_ptr<ReductionStream> stream);
  // Returns the plan for the ReductionStream of member `rank` of `size`
  // members. Returns the errors of Optimizer::Create.
  static absl::StatusOr<ReductionStream::Plan> PlanFor(
      const JobSpec& job, const ArenaLayout* layout, int rank, int size);
  // Aborts transfers that Finish has not completed.
  ~AllReduceExchange() override;

  ReductionStream* device() override { return device_.get(); }
  Buffer TakeArena() override { return arenas_.Take(); }
  // Requests a call of Options::save at `version` for each chunk that this
  // member reduces. Returns false if the exchange has already computed this
  // version or is computing it. Thread-safe.
  bool SaveAt(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);

  // Writes version 0 of the weights that this member reads, which `arena`
  // holds, to the WeightsSink. All members must push the same values.
  void PushInitial(Buffer arena) override;
  GradientSender* SenderOf(int /*chunk*/) override { return this; }
  void Push(int64_t step, NodeChunk sum) override ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until this member has completed the last step and its messages have
  // been delivered, or until the exchange has failed. If the job stops early,
  // this member pushes nothing for the next step, and the exchange abandons
  // that step.
  void Finish() override ABSL_LOCKS_EXCLUDED(mu_);
  void FillStatistics(ProcessStatistics* statistics) const override;

 private:
  friend class AllReduceStep;
  using Transfer = std::unique_ptr<PeerMesh::Transfer>;

  // The results that this member itself has computed for a step.
  struct Own {
    MemberShare share;  // Complete once all nodes have a sample count.
    // Gradient sums, indexed by chunk and by node of the reduction tree.
    std::map<int, std::map<int, NodeChunk>> chunks;
    std::map<int, int64_t> sample_counts;  // Indexed by node.
    std::map<int, LossSum> losses;         // Indexed by node.
    std::vector<Transfer> sends;           // Transfers that send these results.
    int pushing = 0;  // Number of calls of Push in progress for this step.
  };

  AllReduceExchange(const Options& options, ChunkRoutes routes,
                    const ArenaLayout* layout, WeightsSink* sink,
                    std::unique_ptr<PeerMesh> mesh, DeviceMesh* device_mesh,
                    std::unique_ptr<ReductionStream> device);
  // Begins the step of a member that contributes to no chunk. That of other
  // members begins when they push their first sum.
  void OnBegin(int64_t step) override ABSL_LOCKS_EXCLUDED(mu_);
  // Creates optimizer_, restores its state, and starts the thread that runs the
  // steps.
  absl::Status Start();
  // Moves the sink's weights to the device.
  absl::Status MoveWeights();
  // Allocates the buffers that one step needs, and that later steps reuse: one
  // for each gradient sum (of one chunk) that this member receives, and
  // Options::arenas gradient arenas.
  void Reserve();
  // Copies weights within the memory where the exchange works: the host's or
  // the GPU's.
  void CopyWeights(const float* from, int64_t count, float* to);

  Transfer Send(int to, uint64_t tag, const void* data, int64_t bytes);
  Transfer Receive(int from, uint64_t tag, void* data, int64_t bytes);
  // SendChunk and ReceiveChunk start the transfer of a chunk in the memory
  // where the exchange works: the host's or the GPU's. `ready` is the event
  // after which the values may be read, or null if they may be read at once.
  Transfer SendChunk(int to, uint64_t tag, const float* values, int64_t bytes,
                     std::shared_ptr<Event> ready);
  Transfer ReceiveChunk(int from, uint64_t tag, float* values, int64_t bytes);
  void RunSteps();
  // Returns the address to which to write the version of the chunk that `step`
  // computes. Returns Internal if the sink does not accept this version.
  absl::StatusOr<float*> BeginWrite(int64_t step, int chunk);
  // Returns true if `version` is saved even without a call of SaveAt: it is the
  // last version, or a multiple of Options::keep_every.
  bool KeepsVersion(int64_t version) const;
  // Records that the step has begun. Returns true if the version that the step
  // computes must be saved.
  bool BeginStep(int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  void EndWrite(int64_t step, int chunk);

  const Options options_;
  const ChunkRoutes routes_;
  const ArenaLayout* const layout_;
  WeightsSink* const sink_;
  // The stream is destroyed last, after all buffers in its device's memory.
  // Null if the exchange works in host memory.
  const std::unique_ptr<ReductionStream> device_;
  const std::unique_ptr<PeerMesh> mesh_;
  DeviceMesh* const device_mesh_;               // mesh_, or null.
  std::unique_ptr<MemberOptimizer> optimizer_;  // Constant after Start.
  const int tree_leaves_;
  const bool gated_;    // True if updates wait for the norm of the gradient.
  const bool sharded_;  // True if the job sets shard_optimizer.
  BufferPool arenas_;
  BufferPool sums_;  // Buffers for one chunk each.
  ChunkLatency latency_;
  const std::unique_ptr<ExchangeTrace> trace_;  // Null: no step is traced.
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<int64_t> bytes_received_{0};

  absl::Mutex mu_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;      // Finish was called.
  bool done_ ABSL_GUARDED_BY(mu_) = false;           // No more steps follow.
  std::map<int64_t, Own> own_ ABSL_GUARDED_BY(mu_);  // Indexed by step.
  int64_t next_step_ ABSL_GUARDED_BY(mu_);  // First step that has not begun.
  std::set<int64_t> save_at_ ABSL_GUARDED_BY(mu_);  // Versions to save.

  Thread thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_EXCHANGE_H_
