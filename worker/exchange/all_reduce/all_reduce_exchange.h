// The exchange of DistributedDataParallel: no servers in the way of gradients,
// every worker keeps the weights and runs the optimizer.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/parameters/parameter_table.h"
#include "common/parameters/reduction_tree.h"
#include "common/parameters/snapshot.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/all_reduce/chunk_updater.h"
#include "worker/exchange/chunk_latency.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/mesh/peer_mesh.h"
#include "worker/state/work_state.h"

namespace tributary {

// An all-reduce in two halves, reduce-scatter and all-gather, a chunk at a
// time: 2 (n - 1) / n of the model each way through each of n workers, as a
// ring's (Patarasuk and Yuan, 2009), but in two hops, whatever n is. Chunk c is
// reduced at member c % n. It gets the sums of all nodes that the others have
// computed and adds them in the order of the reduction tree, which a ring
// cannot: so the weights are, bit for bit, those of the parameter server in
// synchronous mode, for any number of workers.
//
// What is gathered is the sum, and every member runs the whole optimizer; or,
// with shard_optimizer, the new weights, of which each member makes its part
// and keeps the state: ZeRO's first stage (Rajbhandari et al., 2020).
//
// Backward is overlapped: a chunk leaves when its last node here is done. One
// thread takes in what others send, adds, updates and sends on. New weights
// appear in the WorkState chunk by chunk. Steps follow one another without the
// coordinator, whom member 0 tells of each.
class AllReduceExchange final : public Exchange {
 public:
  struct Options {
    JobSpec job;  // Resolved.
    int64_t steps = 0;
    // The first step that is taken: the version of the weights it begins with.
    int64_t first_step = 0;
    bool shard_optimizer = false;
    // At first_step, if that is not 0: the optimizer's state of all chunks, or
    // of those that are needed here.
    Snapshot first;
    // By member: what it computes of every step. Nobody's is empty.
    std::vector<LeafRange> assignments;
    // Member 0's: is told of each step, in order, on any thread.
    std::function<void(const StepSums&)> on_sums;
    // Takes copies of the chunks that this member reduces, at the versions of
    // SaveAt and at the last one, in the exchange's thread. May be null.
    std::function<void(int64_t version, const Snapshot::Chunk&)> save;
    // For gradient arenas.
    PinMemory pin;
  };
  // `layout` and `state` must outlive the exchange. InvalidArgument if the
  // leaves do not fit the mesh.
  static absl::StatusOr<std::unique_ptr<AllReduceExchange>> Create(
      const Options& options, const ArenaLayout* layout, WorkState* state,
      std::unique_ptr<PeerMesh> mesh);
  // Calls off what Finish has not ended.
  ~AllReduceExchange() override;

  Buffer TakeArena() override { return arenas_.Take(); }
  // Has Options::save called at this version. False: it is past that, or on its
  // way there. Any thread.
  bool SaveAt(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);

  // Every member brings its own, which is the same.
  void PushInitial(Buffer arena) override;
  void Push(int64_t step, NodeChunk sum) override ABSL_LOCKS_EXCLUDED(mu_);
  // After the last step, whose weights are here, it is also everywhere.
  void Finish() override ABSL_LOCKS_EXCLUDED(mu_);
  int64_t bytes_sent() const override { return bytes_sent_; }
  int64_t bytes_received() const override { return bytes_received_; }
  DurationCounts chunk_latency() const override { return latency_.counts(); }

 private:
  using Transfer = std::unique_ptr<PeerMesh::Transfer>;
  class Step;

  // What this member has computed of a step.
  struct Own {
    std::map<int, std::map<int, NodeChunk>> chunks;  // By chunk, by node.
    std::map<int, int64_t> sample_counts;            // By node.
    int64_t sample_count = 0;                        // Of all nodes.
    std::map<int, double> losses;                    // By node.
    std::vector<Transfer> sends;                     // Of the above.
    int pushing = 0;  // Calls of Push that add to these.
  };

  AllReduceExchange(const Options& options, const ArenaLayout* layout,
                    WorkState* state, std::unique_ptr<PeerMesh> mesh,
                    std::unique_ptr<ChunkUpdater> updater);

  int OwnerOf(int chunk) const {
    return ArenaLayout::ShardOf(chunk, mesh_->size());
  }
  Transfer Send(int to, uint64_t tag, const void* data, int64_t bytes);
  Transfer Receive(int from, uint64_t tag, void* data, int64_t bytes);
  void RunSteps();
  // Where the version that the step makes goes.
  absl::StatusOr<float*> BeginWrite(int64_t step, int chunk);
  // True: the version that the step makes is to be saved.
  bool BeginStep(int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  void EndWrite(int64_t step, int chunk);

  const Options options_;
  const ArenaLayout* const layout_;
  WorkState* const state_;
  const std::unique_ptr<PeerMesh> mesh_;
  const std::unique_ptr<ChunkUpdater> updater_;
  const int tree_leaves_;
  const bool gated_;  // Updates wait for the norm of the whole gradient.
  std::vector<std::vector<int>> nodes_;  // By member: what it computes.
  BufferPool arenas_;
  BufferPool sums_;  // Of chunks.
  ChunkLatency latency_;
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<int64_t> bytes_received_{0};

  absl::Mutex mu_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;  // There will be no more steps.
  std::map<int64_t, Own> own_ ABSL_GUARDED_BY(mu_);  // By step.
  int64_t next_step_ ABSL_GUARDED_BY(mu_);           // That has not begun.
  std::set<int64_t> save_at_ ABSL_GUARDED_BY(mu_);   // Versions.

  std::thread thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_EXCHANGE_H_
