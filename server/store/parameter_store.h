// One server's part of the master weights: its chunks, their optimizer state,
// and the passes over the memory that turn contributions into new versions.
#ifndef TRIBUTARY_SERVER_STORE_PARAMETER_STORE_H_
#define TRIBUTARY_SERVER_STORE_PARAMETER_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/base/executor.h"
#include "common/codec/encoding.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"
#include "common/os/shared_memory.h"
#include "common/parameters/parameter_table.h"
#include "common/parameters/snapshot.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/store/block_pass.h"
#include "server/store/chunk_pass.h"
#include "server/store/chunk_weights.h"
#include "server/store/consistency/consistency_policy.h"
#include "server/store/contribution_check.h"
#include "server/store/sample_counts.h"
#include "server/store/sum_reports.h"

namespace tributary {

// One chunk at one version. Immutable, and kept alive by whoever holds it.
struct WeightsVersion {
  int chunk = 0;
  int64_t version = -1;
  // In whole. Without data for those who read it in the shared memory.
  EncodedFloats values;
  // With compression, for those who have version - 1: what leads from there to
  // this one. Without data if there is none: then the whole is to be sent.
  EncodedFloats difference;
  // Beside a difference: version - 1 in whole.
  EncodedFloats previous;
  bool more = false;  // Others may follow at once; OnBurstEnd will.
};

// Is told of every new version.
class WeightsSubscriber {
 public:
  virtual ~WeightsSubscriber() = default;
  // No other one's in this process, not even of one that is gone.
  int64_t id() const { return id_; }
  // Called with a chunk's lock held, in the order of versions for each chunk:
  // it must be quick and must not call the store.
  virtual void OnWeights(const WeightsVersion& weights) = 0;
  // What became of a contribution whose sender this is, while the chunk had
  // `version` (asynchronous mode). The same rules.
  virtual void OnOutcome(const Outcome& /*outcome*/, int64_t /*version*/) {}
  // No update is under way or waiting. Called with a lock held, too.
  virtual void OnBurstEnd() {}

 private:
  static int64_t NextId() {
    static std::atomic<int64_t> last{0};
    return ++last;
  }
  const int64_t id_ = NextId();
};

// Thread-safe.
//
// Contributions to a chunk go to its ContributionQueue, made by the policy of
// the consistency mode; the one that makes an update possible queues it on the
// thread pool. The chunk's ChunkPass, on the CPU or on a GPU, reads the
// gradients where they are, adds them up, reads version s and writes version s
// + 1 into another buffer, which is then published. The sum's squares are
// reported with StepSums when all chunks of this server have theirs. With
// clipping a first pass is only for the squares, and the update follows when
// SetGradientNorm has given the norm; but in asynchronous mode the norm comes
// with the gradient.
//
// Both the newest version and the one before it are kept, for synchronous mode.
// That is what lets a step survive the loss of any worker: chunk A may be at s
// + 1 while chunk B still waits for gradients of step s, and whoever computes
// those, a worker that has just joined included, needs version s of A. Version
// s + 2 of any chunk needs gradients computed from version s + 1 of all, so by
// then nobody needs version s.
//
// For the same reason the two versions may lie in two fixed places that workers
// on this host read directly (ShareWeights), version v in arena v % 2: what the
// update to version s + 2 overwrites, version s, is of no use to anybody. A
// worker that has been left behind may still be reading it, and get a mixture:
// what it makes of that is a contribution to a closed step, and dropped. Values
// that go through a stream are copied out first, since gRPC may still be
// sending them then. What workers read may differ from what the optimizer
// writes: see ChunkWeights. Out of place costs no more than in place: the CPU's
// pass reads gradients, weights and state once and writes weights and state
// once either way.
class ParameterStore {
 public:
  struct Options {
    JobSpec job;  // Resolved.
    int64_t steps = 0;
    int shard = 0;
    int servers = 1;
    int64_t attempt = 1;  // At the job.
    // What Restore will be given; 0: workers bring version 0.
    int64_t first_version = 0;
    // What contributions must contain. Absent: sample counts are not checked.
    std::optional<SampleCounts> sample_counts;
    // What sums and updates.
    ChunkPassMaker make_passes = &MakeBlockPasses;
  };
  using SumsCallback = std::function<void(const StepSums&)>;
  // Gets a copy of each new version of a chunk before anybody else does, on any
  // thread. The version is given out when `kept` is called, from there or
  // later, on any thread.
  using ReplicateCallback = std::function<void(
      int64_t version, Snapshot::Chunk copy, std::function<void()> kept)>;

  // `pool` must outlive the store and be drained before it is destroyed; by
  // then nobody may call what a ReplicateCallback was given any more.
  // `on_sums` is called once for each step, on any thread; in synchronous mode
  // in order. Errors are those of `make_passes` and CreateConsistencyPolicy.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(
      const Options& options, ArenaLayout layout, Executor* pool,
      SumsCallback on_sums);

  const ArenaLayout& layout() const { return layout_; }
  const ExchangeSpec& exchange() const { return options_.job.exchange(); }
  // Of the optimizer's state.
  std::vector<std::string> slot_names() const {
    return optimizer_->slot_names();
  }
  // The numbers of this server's chunks, ascending.
  const std::vector<int>& chunk_numbers() const { return chunk_numbers_; }
  // A buffer that fits any chunk.
  Buffer TakeBuffer() { return buffers_.Take(); }
  // For memory that contributions are read from.
  const PinMemory& pin_memory() const { return pin_memory_; }

  // To be called before anything is added. With it the job awaits norms.
  void SetReplicator(ReplicateCallback replicate) {
    replicate_ = std::move(replicate);
  }

  // Says whether the chunk is here; InvalidArgument names it if not.
  absl::Status CheckChunk(int chunk) const;

  // Version 0 of a chunk. A chunk that has a version already keeps it.
  absl::Status AddInitial(int chunk, Buffer values);

  // Buffers for all chunks, of unspecified contents.
  Snapshot BlankSnapshot();
  // Goes on from there: its version is Options::first_version. To be called
  // once, before anything else is.
  void Restore(Snapshot snapshot);
  // Has every chunk copied when it comes to `version`, and calls `done` once
  // with all of them, on any thread; a chunk's update that makes this version
  // writes it twice, which is all that training notices. False: a chunk is past
  // the version, or on its way to it; nothing will be called. A snapshot that
  // was asked for before and is not complete is forgotten.
  bool TakeSnapshot(int64_t version, std::function<void(Snapshot)> done)
      ABSL_LOCKS_EXCLUDED(capture_mu_);
  // Steps applied to all chunks; -1: some have no version.
  int64_t CompleteVersion() const;

  // OK for what was added, and for what is not needed any more. InvalidArgument
  // or FailedPrecondition, naming step, chunk and node, for what no honest
  // worker sends; nothing has changed then.
  absl::Status AddContribution(int chunk, IncomingSum sum);

  // L2 norm of the batch's mean gradient of `step`. Only for jobs that clip, or
  // skip what is not finite, and apply steps in order; others ignore it.
  void SetGradientNorm(int64_t step, double norm);

  // Versions of each chunk that are of use to workers: see ConsistencyPolicy.
  int useful_versions() const { return policy_->useful_versions(); }

  // Puts the weights into memory that processes on this host may map: two
  // arenas, each rounded up to whole pages, with the chunks at their places.
  // Unavailable where there is no such memory. Idempotent. Only where two
  // versions are of use.
  absl::StatusOr<SharedMemoryOffer> ShareWeights()
      ABSL_LOCKS_EXCLUDED(share_mu_);

  // Tells `subscriber` the versions that are there, and from now on every new
  // one, until Unsubscribe returns. `in_memory`: without values, after
  // ShareWeights.
  void Subscribe(WeightsSubscriber* subscriber, bool in_memory);
  void Unsubscribe(WeightsSubscriber* subscriber);

  // The optimizer's own weights, float32. FailedPrecondition if the chunk has
  // no such version (any more).
  absl::StatusOr<WeightsVersion> Read(int chunk, int64_t version);

 private:
  struct Subscription {
    WeightsSubscriber* subscriber = nullptr;
    bool in_memory = false;
  };
  struct Chunk {
    Chunk(ParameterStore* store, int number, int place,
          std::unique_ptr<ChunkPass> pass);

    const int number;
    const int place;  // In chunk_numbers_.
    const int64_t elements;

    mutable absl::Mutex mu;
    // But for what its header says.
    ChunkWeights weights ABSL_GUARDED_BY(mu);
    const std::unique_ptr<ContributionQueue> contributions
        ABSL_PT_GUARDED_BY(mu);
    // `update` is on its way to be the next version.
    bool updating ABSL_GUARDED_BY(mu) = false;
    std::vector<Subscription> subscriptions ABSL_GUARDED_BY(mu);
    // Of which this chunk is missing.
    std::shared_ptr<SnapshotCapture> capture ABSL_GUARDED_BY(mu);

    // Touched only by the one task that adds up or updates the chunk.
    ChunkUpdate update;
    const std::unique_ptr<ChunkPass> pass;
  };

  ParameterStore(const Options& options, ArenaLayout layout, Executor* pool,
                 std::unique_ptr<ConsistencyPolicy> policy,
                 std::unique_ptr<Optimizer> optimizer, ChunkPasses passes,
                 SumsCallback on_sums);

  Chunk* Find(int chunk) const;
  // Takes the next update, if there is one and none is under way. True: Begin
  // it.
  static bool TakeUpdate(Chunk* chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk->mu);
  static void Answer(const Chunk& chunk, const ContributionOutcome& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk.mu);
  void Begin(Chunk* chunk) ABSL_LOCKS_EXCLUDED(chunk->mu);
  // Runs work(chunk) on the pool. Of several that wait the first layers go
  // first: the next forward begins with them.
  void Schedule(Chunk* chunk, std::function<void(Chunk*)> work)
      ABSL_LOCKS_EXCLUDED(queue_mu_);
  void RunNext() ABSL_LOCKS_EXCLUDED(queue_mu_, subscribers_mu_);
  // The update, or what must come before it.
  void OnTaken(Chunk* chunk, bool more) ABSL_LOCKS_EXCLUDED(chunk->mu);
  void ReportSum(const Chunk& chunk, double sum_of_squares);
  // `norm` of the mean gradient matters only to jobs that clip or skip.
  void Update(Chunk* chunk, double norm, bool more)
      ABSL_LOCKS_EXCLUDED(chunk->mu);
  // Gives the new version out.
  void FinishUpdate(Chunk* chunk, ChunkWeights::Next next, bool more)
      ABSL_LOCKS_EXCLUDED(chunk->mu);
  // See ChunkPass::Run.
  double RunPass(const Chunk& chunk, int64_t version, double norm,
                 const ChunkWeights& weights, const ChunkWeights::Next& next,
                 const Snapshot::Chunk* copy) const;
  // Of the chunk's version that will be at `next`; shares what nobody writes.
  Snapshot::Chunk BlankCopy(const Chunk& chunk, const ChunkWeights::Next& next);
  // Of a chunk that is not being updated, as it is.
  Snapshot::Chunk CopyNow(Chunk* chunk)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk->mu);
  static void Publish(Chunk* chunk, bool more)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk->mu);

  // Constant after construction.
  const Options options_;
  const int leaves_;
  const std::unique_ptr<const ConsistencyPolicy> policy_;
  const UpdateRecipe recipe_;
  const bool awaits_norm_;  // Updates wait for SetGradientNorm.
  const ArenaLayout layout_;
  const ContributionCheck check_;
  const bool streams_;  // New weights are written past the caches.
  Executor* const pool_;
  const std::unique_ptr<Optimizer> optimizer_;
  const int slots_;  // Of the optimizer.
  const SumsCallback on_sums_;
  const PinMemory pin_memory_;   // Null: nothing is to be pinned.
  ReplicateCallback replicate_;  // Null: no journal.
  std::vector<int> chunk_numbers_;
  BufferPool buffers_;
  BufferPool halves_;  // Of half their size, for 16-bit numbers.
  SumReports reports_;
  std::vector<std::unique_ptr<Chunk>> chunks_;  // By place in chunk_numbers_.

  absl::Mutex queue_mu_;
  // What the pool has been asked to do, by chunk: at most one thing for each.
  std::map<int, std::function<void(Chunk*)>> queue_ ABSL_GUARDED_BY(queue_mu_);
  // Of them, and those being done.
  int unfinished_ ABSL_GUARDED_BY(queue_mu_) = 0;

  absl::Mutex subscribers_mu_;
  std::vector<WeightsSubscriber*> subscribers_ ABSL_GUARDED_BY(subscribers_mu_);

  absl::Mutex capture_mu_;  // Held by TakeSnapshot.

  absl::Mutex share_mu_;
  std::shared_ptr<SharedMemory> memory_ ABSL_GUARDED_BY(share_mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_PARAMETER_STORE_H_
