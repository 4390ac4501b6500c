// One server's part of the master weights: its chunks, their optimizer state,
// and the synchronous rule that turns contributions into new versions.
#ifndef TRIBUTARY_SERVER_PARAMETER_STORE_H_
#define TRIBUTARY_SERVER_PARAMETER_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/buffer_pool.h"
#include "common/optimizer.h"
#include "common/parameter_table.h"
#include "common/thread_pool.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/chunk_aggregator.h"

namespace tributary {

// Values of one chunk at one version; immutable, and kept alive by whoever
// holds `values`.
struct WeightsVersion {
  int chunk = 0;
  int64_t version = -1;
  Buffer values;
  int64_t elements = 0;
};

// Is told of every new version.
class WeightsSubscriber {
 public:
  virtual ~WeightsSubscriber() = default;
  // Called with a chunk's lock held, in the order of versions for each chunk:
  // it must be quick and must not call the store.
  virtual void OnWeights(const WeightsVersion& weights) = 0;
};

// Thread-safe.
//
// A chunk's step s: contributions are collected in its aggregator; the one that
// completes the tree queues the sum on the thread pool. The sum's squares are
// reported with StepSums when all chunks of this server have theirs. Without
// clipping the update follows at once; with it, when SetGradientNorm has given
// the norm. The update reads version s, writes version s + 1 into another
// buffer and publishes it.
//
// Both the newest version and the one before it are kept. That is what lets a
// step survive the loss of any worker: chunk A may be at s + 1 while chunk B
// still waits for gradients of step s, and whoever computes those, a worker
// that has just joined included, needs version s of A. Version s + 2 of any
// chunk needs gradients computed from version s + 1 of all, so by then nobody
// needs version s.
class ParameterStore {
 public:
  struct Options {
    JobSpec job;  // Resolved.
    int64_t steps = 0;
    int shard = 0;
    int servers = 1;
  };
  using SumsCallback = std::function<void(const StepSums&)>;

  // `pool` must outlive the store and be drained before it is destroyed.
  // `on_sums` is called once for each step, in order, on a thread of the pool.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(
      const Options& options, ArenaLayout layout, ThreadPool* pool,
      SumsCallback on_sums);

  const ArenaLayout& layout() const { return layout_; }
  // The numbers of this server's chunks, ascending.
  const std::vector<int>& chunk_numbers() const { return chunk_numbers_; }
  // A buffer that fits any chunk.
  Buffer TakeBuffer() { return buffers_.Take(); }

  // Says whether the chunk is here; InvalidArgument names it if not.
  absl::Status CheckChunk(int chunk) const;

  // Version 0 of a chunk. A chunk that has a version already keeps it.
  absl::Status AddInitial(int chunk, Buffer values);

  // OK for what was added, and for what is not needed any more. InvalidArgument
  // or FailedPrecondition, naming step, chunk and node, for what no honest
  // worker sends; nothing has changed then.
  absl::Status AddContribution(int64_t step, int chunk, int node, NodeSum sum);

  // L2 norm of the batch's mean gradient of `step`. Clipping jobs only; others
  // ignore it.
  void SetGradientNorm(int64_t step, double norm);

  // Tells `subscriber` the versions that are there, and from now on every new
  // one, until Unsubscribe returns.
  void Subscribe(WeightsSubscriber* subscriber);
  void Unsubscribe(WeightsSubscriber* subscriber);

  // FailedPrecondition if the chunk has no such version (any more).
  absl::StatusOr<WeightsVersion> Read(int chunk, int64_t version) const;

 private:
  struct Chunk {
    explicit Chunk(int leaves) : aggregator(leaves) {}

    int number = 0;
    int64_t elements = 0;
    std::vector<ChunkSegment> segments;

    mutable absl::Mutex mu;
    int64_t version ABSL_GUARDED_BY(mu) = -1;
    Buffer weights ABSL_GUARDED_BY(mu);
    Buffer previous ABSL_GUARDED_BY(mu);
    ChunkAggregator aggregator ABSL_GUARDED_BY(mu);
    // The tree of step `version` is complete: late contributions are
    // duplicates.
    bool closed ABSL_GUARDED_BY(mu) = false;
    std::vector<WeightsSubscriber*> subscribers ABSL_GUARDED_BY(mu);

    // Touched only by the one task that sums or updates the chunk.
    NodeSum sum;
    std::vector<Buffer> slots;
  };

  ParameterStore(const Options& options, ArenaLayout layout, ThreadPool* pool,
                 std::unique_ptr<Optimizer> optimizer, SumsCallback on_sums);

  Chunk* Find(int chunk) const;
  void Sum(Chunk* chunk, NodeSum sum);
  // `norm` of the mean gradient matters only to jobs that clip.
  void Update(Chunk* chunk, double norm);
  static void ZeroGaps(const Chunk& chunk, float* weights);
  static void Publish(Chunk* chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk->mu);

  // Constant after construction.
  const Options options_;
  const int leaves_;
  const bool clips_;
  const ArenaLayout layout_;
  ThreadPool* const pool_;
  const std::unique_ptr<Optimizer> optimizer_;
  const SumsCallback on_sums_;
  std::vector<int> chunk_numbers_;
  std::vector<std::unique_ptr<Chunk>> chunks_;  // By place in chunk_numbers_.

  BufferPool buffers_;

  absl::Mutex sums_mu_;
  StepSums sums_ ABSL_GUARDED_BY(sums_mu_);
  int sums_missing_ ABSL_GUARDED_BY(sums_mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PARAMETER_STORE_H_
