// One server's part of the master weights: its chunks, their optimizer state,
// and the updates that turn contributions (gradient sums that workers send)
// into new versions of the chunks.
#ifndef TRIBUTARY_COMMON_UPDATE_UPDATE_ENGINE_H_
#define TRIBUTARY_COMMON_UPDATE_UPDATE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/executor.h"
#include "common/codec/encoding.h"
#include "common/job/exchange_traits.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"
#include "common/os/shared_memory.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/snapshot.h"
#include "common/update/block_pass.h"
#include "common/update/chunk_pass.h"
#include "common/update/chunk_weights.h"
#include "common/update/consistency/consistency_policy.h"
#include "common/update/contribution_check.h"
#include "common/update/device_share.h"
#include "common/update/sample_counts.h"
#include "common/update/sum_reports.h"
#include "common/update/update_queue.h"
#include "common/update/update_trace.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// One version of one chunk. Immutable and reference-counted.
struct WeightsVersion {
  int chunk = 0;
  int64_t version = -1;
  // All weights of this version. Has no data for subscribers that read the
  // weights from shared memory or from the memory of the device.
  EncodedFloats values;
  // With compression, the difference to the previous version, for workers that
  // have that version. If it has no data, `values` must be sent.
  EncodedFloats difference;
  // All weights of the previous version. Has data only if `difference` has
  // data.
  EncodedFloats previous;
  // True if more versions may follow soon. OnBurstEnd is called after the last
  // of them, or after this version if none follows.
  bool more = false;
};

// Receives every new version of the store's chunks.
class WeightsSubscriber {
 public:
  virtual ~WeightsSubscriber() = default;
  // Returns a number that is unique in this process and never reused.
  int64_t id() const { return id_; }
  // Returns the incarnation (the number that a worker got when it joined) of
  // the worker that receives the weights, or 0 if the incarnation is unknown.
  // Used for the trace.
  virtual int64_t incarnation() const { return 0; }
  // Called with each new version of each chunk. The versions of a chunk come in
  // order. Called with the chunk's lock held: must not block and must not call
  // the store.
  virtual void OnWeights(const WeightsVersion& weights) = 0;
  // In mode `asynchronous`, called with the outcome of a contribution that this
  // subscriber's worker sent. `version` is the newest version of the chunk. The
  // restrictions of OnWeights apply.
  virtual void OnOutcome(const Outcome& /*outcome*/, int64_t /*version*/) {}
  // Called when no update of any chunk is running or queued on the store's
  // pool, with a lock of the store held. The restrictions of OnWeights apply.
  virtual void OnBurstEnd() {}

 private:
  static int64_t NextId() {
    static std::atomic<int64_t> last{0};
    return ++last;
  }
  const int64_t id_ = NextId();
};

// Holds one server's chunks and applies contributions to them. Thread-safe.
//
// Contributions to a chunk are added to its ContributionQueue, which the
// ConsistencyPolicy of the job's mode has created. The contribution that makes
// an update possible schedules the update on the thread pool or, if the pass is
// brief (see ChunkPass), runs it at once. The chunk's ChunkPass, on the CPU or
// on a GPU, sums the gradients, which it reads from the memory in which they
// arrived. It reads version s of the chunk, which is the newest version, and
// writes version s + 1 into a different buffer. The store then publishes
// version s + 1. When the gradients of a step have been summed for all chunks
// of this server, `on_sums` receives the step's StepSums, with the sum of
// squares. If updates wait for the norm (see SetGradientNorm), a first pass
// computes only the squares, and the update follows when SetGradientNorm
// provides the norm. In mode `asynchronous` the norm arrives with the gradient
// instead.
//
// In synchronous mode, each chunk keeps the newest version and the one before
// it, so that a step survives the loss of any worker. Chunk A may be at version
// s + 1 while chunk B still waits for gradients of step s; a worker that
// computes these gradients, possibly one that has just joined, needs version s
// of A. An update of any chunk to version s + 2 requires gradients that were
// computed from version s + 1 of all chunks, so from then on version s is not
// needed.
//
// For the same reason, the two versions may have two fixed places in shared
// memory that workers on this host read directly (ShareWeights): version v is
// in arena v % 2. The update to version s + 2 overwrites version s, which is
// not needed. A straggler may still be reading version s and see a mixture of
// both versions; its contribution belongs to a completed step and is dropped.
// Values that a stream sends are copied first, because gRPC may still be
// sending them when they are overwritten. The weights that workers read may
// differ from the weights that the optimizer writes; see ChunkWeights.
//
// Writing to a different buffer costs no more than updating in place: the CPU's
// pass reads gradients, weights and state once, and writes weights and state
// once, either way.
class UpdateEngine {
 public:
  struct Options {
    JobSpec job;  // The result of JobOfRounds for a result of ResolveJob.
    int64_t steps = 0;
    int shard = 0;
    int servers = 1;
    int64_t attempt = 1;  // Number of the job's attempt.
    // The version that Restore will set, or 0 if a worker initializes the
    // weights.
    int64_t first_version = 0;
    // The sample counts that contributions must have. If absent, they are not
    // checked.
    std::optional<SampleCounts> sample_counts;
    // Creates the passes, which sum the gradients of chunks and update their
    // weights.
    ChunkPassMaker make_passes = &MakeBlockPasses;
    // Called if a pass fails (see ChunkPass), at most once. The call may come
    // from any thread and with a lock of the store held, so the callback must
    // not call the store. After a failure the chunk, and therefore the job,
    // makes no progress; versions that were published before stay valid. May be
    // null.
    std::function<void(const absl::Status&)> on_failure;
    // Records what the store does in the traced steps. Null if no step is
    // traced. Must outlive the store.
    UpdateTrace* trace = nullptr;
  };
  using SumsCallback = std::function<void(const StepSums&)>;
  // Receives a copy of each new version of a chunk before it is published.
  // Called on any thread. The store publishes the version when `kept` is
  // called: by the callback itself or later, on any thread.
  using ReplicateCallback = std::function<void(
      int64_t version, Snapshot::Chunk copy, std::function<void()> kept)>;

  // `pool` must outlive the store. Before the store is destroyed, `pool` must
  // be drained and all `kept` callbacks must have returned or been destroyed.
  // `on_sums` is called once for each step, on any thread. In synchronous mode,
  // the calls are in the order of steps. Returns errors of `make_passes` and
  // CreateConsistencyPolicy.
  static absl::StatusOr<std::unique_ptr<UpdateEngine>> Create(
      const Options& options, ArenaLayout layout, Executor* pool,
      SumsCallback on_sums);

  const ArenaLayout& layout() const { return layout_; }
  const ExchangeSpec& exchange() const { return options_.job.exchange(); }
  // Returns the number of micro-batches of a step.
  int leaves() const { return leaves_; }
  // Returns true if each worker computes whole steps; see ExchangeTraits.
  bool whole_batches() const { return traits_.whole_batches; }
  // Returns the names of the optimizer's state arrays.
  std::vector<std::string> slot_names() const {
    return optimizer_->slot_names();
  }
  // Returns the numbers of this server's chunks, ascending.
  const std::vector<int>& chunk_numbers() const { return chunk_numbers_; }
  // Returns a buffer with room for any chunk.
  Buffer TakeBuffer() { return buffers_.Take(); }
  // Returns the function that pins (page-locks) host memory from which a GPU
  // reads contributions. Null if memory need not be pinned.
  const PinMemory& pin_memory() const { return pin_memory_; }
  Executor* pool() const { return pool_; }

  // Sets the callback that copies each new version to a different process (see
  // ReplicateCallback). Call it before AddInitial and AddContribution. In a job
  // with replicas, updates wait for SetGradientNorm.
  void SetReplicator(ReplicateCallback replicate) {
    replicate_ = std::move(replicate);
  }

  // Returns InvalidArgument if the chunk does not belong to this server.
  absl::Status CheckChunk(int chunk) const;

  // Sets version 0 of a chunk, at once or on the pool. No effect if the chunk
  // already has a version. Returns InvalidArgument if the chunk does not belong
  // to this server.
  absl::Status AddInitial(int chunk, Buffer values);

  // Returns a snapshot with buffers for all chunks of this server. Their
  // contents are unspecified.
  Snapshot BlankSnapshot();
  // Resumes from a snapshot of version Options::first_version. Call it at most
  // once, before AddInitial, AddContribution and TakeSnapshot. If a pass cannot
  // restore its state, calls Options::on_failure.
  void Restore(Snapshot snapshot);
  // Copies every chunk at `version`: immediately if the chunk has this version,
  // otherwise when the chunk reaches it. Then calls `done` once with all
  // copies, on any thread. The only costs to training are that updates to this
  // version also write the copies, and that a chunk that has this version is
  // locked while its state is copied. Returns false, and does not call `done`,
  // if a chunk has a newer version, is being updated to or from `version`, or
  // cannot be copied. Replaces an earlier snapshot that is not complete.
  bool TakeSnapshot(int64_t version, std::function<void(Snapshot)> done)
      ABSL_LOCKS_EXCLUDED(capture_mu_);
  // Returns the oldest of the chunks' versions, which is the number of steps
  // that were applied to all chunks. Returns -1 if some chunk has no version,
  // and Options::steps if this server has no chunks.
  int64_t CompleteVersion() const;

  // Drops the contributions of the worker with this incarnation to steps that
  // are not complete, and refuses all later ones with Aborted.
  void Revoke(int64_t incarnation) ABSL_LOCKS_EXCLUDED(revoked_mu_);
  // Returns Aborted if the worker was revoked.
  absl::Status CheckNotRevoked(int64_t incarnation) const
      ABSL_LOCKS_EXCLUDED(revoked_mu_);
  // Sets the version, and the missing work, of a server's heartbeat.
  void FillHeartbeat(ServerHeartbeat* heartbeat) const;
  // Returns a micro-batch that the oldest of the chunks waits for; nullopt if
  // it waits for none, or in mode `asynchronous`.
  std::optional<MissingWork> FindMissingWork() const;
  // Returns the newest step that a worker may have begun to compute. A worker
  // that has received a version of one chunk may compute from it before this
  // server's chunks have it.
  int64_t NewestPossibleStep() const;

  // Returns the number of chunks that have all gradients of a step and wait for
  // a thread of the pool. For metrics.
  int QueuedUpdates() const { return queue_.size(); }

  // Adds a contribution. Also returns OK if the contribution is no longer
  // needed and was dropped. Returns InvalidArgument, FailedPrecondition or
  // ResourceExhausted, stating what is wrong, for a contribution that no
  // correct worker sends; the store is then unchanged.
  absl::Status AddContribution(int chunk, NodeSum sum);

  // Sets the L2 norm of the mean gradient of `step`. In modes that apply steps
  // in order, the updates of jobs that clip gradients, skip nonfinite gradients
  // or have replicas wait for this norm. Other jobs ignore it.
  void SetGradientNorm(int64_t step, double norm);

  // Returns the number of versions of each chunk that workers may need (see
  // ConsistencyPolicy).
  int useful_versions() const { return policy_->useful_versions(); }

  // Places the weights in memory that processes on this host may map. The
  // memory consists of two arenas, each with room for all weights of the model,
  // rounded up to whole pages. The chunks have the same offsets as in the
  // layout. Returns Unavailable if such memory cannot be created. Repeated
  // calls return the same memory. Requires useful_versions() == 2 and no
  // compression.
  absl::StatusOr<SharedMemoryOffer> ShareWeights()
      ABSL_LOCKS_EXCLUDED(share_mu_);

  // Returns the memory of the device that updates the weights, if workers may
  // map it, and otherwise null.
  const std::shared_ptr<DeviceShare>& device_share() const {
    return device_share_;
  }

  // Where a subscriber reads the weights of each version.
  enum class Place {
    kStream,        // WeightsVersion::values.
    kSharedMemory,  // See ShareWeights, which must have been called before.
    kDevice,        // DeviceShare::weights().
  };
  // Calls `subscriber` for the existing versions, and for every new version
  // until Unsubscribe returns. Omits the values unless `place` is kStream.
  // Versions that cannot be copied from the device to `place` are left out.
  // While all subscribers read from the device, versions are not copied to the
  // host. The call for the first subscriber with a different place blocks until
  // the existing versions are copied.
  void Subscribe(WeightsSubscriber* subscriber, Place place);
  void Unsubscribe(WeightsSubscriber* subscriber);

  // Returns the optimizer's weights of this version of the chunk, in float32.
  // Returns FailedPrecondition if the chunk does not have this version,
  // InvalidArgument if the chunk does not belong to this server, and Internal
  // if the version cannot be copied from the device.
  absl::StatusOr<WeightsVersion> Read(int chunk, int64_t version);

 private:
  struct Subscription {
    WeightsSubscriber* subscriber = nullptr;
    Place place = Place::kStream;
  };
  struct Chunk {
    Chunk(UpdateEngine* store, int number, int place,
          std::unique_ptr<ChunkPass> pass);

    const int number;
    const int place;  // Index in chunk_numbers_.
    const int64_t elements;

    mutable absl::Mutex mu;
    // Guarded by `mu`, except for calls of Write and Complete (see
    // ChunkWeights).
    ChunkWeights weights ABSL_GUARDED_BY(mu);
    const std::unique_ptr<ContributionQueue> contributions
        ABSL_PT_GUARDED_BY(mu);
    // True while `update` is being turned into the next version.
    bool updating ABSL_GUARDED_BY(mu) = false;
    std::vector<Subscription> subscriptions ABSL_GUARDED_BY(mu);
    // The snapshot for which this chunk must still be copied; null if there is
    // none.
    std::shared_ptr<SnapshotCapture> capture ABSL_GUARDED_BY(mu);
    // For the trace: the contributions that no update has applied yet. Empty if
    // no step is traced.
    UpdateTrace::Contributions traced ABSL_GUARDED_BY(mu);

    // The update that TakeUpdate has taken. Accessed only by the task that sums
    // or updates the chunk.
    ChunkUpdate update;
    const std::unique_ptr<ChunkPass> pass;
  };

  UpdateEngine(const Options& options, ArenaLayout layout, Executor* pool,
               std::unique_ptr<ConsistencyPolicy> policy,
               std::unique_ptr<Optimizer> optimizer, ChunkPasses passes,
               SumsCallback on_sums);

  Chunk* Find(int chunk) const;
  // Does the work of AddInitial.
  void SetInitial(Chunk* chunk, Buffer values) ABSL_LOCKS_EXCLUDED(chunk->mu);
  // Takes the chunk's next update from the queue, if there is one and no update
  // is under way. Returns true if it took an update; the caller must then call
  // Begin or OnTaken. Sends the outcomes of contributions that cause no update.
  static bool TakeUpdate(Chunk* chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk->mu);
  // Sends the outcome of a contribution to the subscriber whose worker has sent
  // the contribution.
  static void Answer(const Chunk& chunk, const ContributionOutcome& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk.mu);
  // An update of one chunk, from BeginRun to EndRun.
  struct ChunkRun {
    Chunk* chunk = nullptr;
    ChunkWeights* weights = nullptr;
    int64_t version = 0;  // The chunk's version before the update.
    ChunkWeights::Next next;
    std::shared_ptr<SnapshotCapture> capture;
    std::optional<Snapshot::Chunk> copy;
    std::vector<int> traced_nodes;   // Empty if the step is not traced.
    ChunkPass::Arguments arguments;  // Its pointers refer to the fields above.
  };

  UpdateQueue::Options QueueOptions();
  // Calls OnBurstEnd of all subscribers, because no update is running or
  // queued.
  void EndBurst() ABSL_LOCKS_EXCLUDED(subscribers_mu_);
  // Schedules the update that TakeUpdate took.
  void Begin(Chunk* chunk) { queue_.Add(chunk->number, std::nullopt); }
  // Runs the updates that TakeUpdate took or, if they must wait for the norm,
  // computes and reports the sums of squares.
  void OnTaken(absl::Span<Chunk* const> chunks, bool more);
  void ReportSum(const Chunk& chunk, double sum_of_squares);
  // Computes the next versions of the chunks. `norm` is the step's norm from
  // SetGradientNorm, or nullopt if updates do not wait for it; then each chunk
  // uses its ChunkUpdate::gradient_norm. See WeightsVersion for `more`.
  void Update(absl::Span<Chunk* const> chunks, std::optional<double> norm,
              bool more);
  // BeginRun begins the update of a chunk. The caller then runs the chunk's
  // pass with ChunkRun::arguments, and calls EndRun. `norm` is the norm of the
  // whole gradient, by which the pass clips.
  std::unique_ptr<ChunkRun> BeginRun(Chunk* chunk, double norm)
      ABSL_LOCKS_EXCLUDED(chunk->mu);
  void EndRun(std::unique_ptr<ChunkRun> run, double squares, bool more)
      ABSL_LOCKS_EXCLUDED(run->chunk->mu);
  // Publishes the new version, and begins the next update if there is one.
  void FinishUpdate(Chunk* chunk, ChunkWeights::Next next, bool more)
      ABSL_LOCKS_EXCLUDED(chunk->mu);
  // Passes the error of the chunk's pass to Options::on_failure.
  void Fail(const Chunk& chunk, const absl::Status& status);
  // Returns buffers for a copy of the version `next`. The copy shares
  // next.values unless a later version overwrites them.
  Snapshot::Chunk BlankCopy(const Chunk& chunk, const ChunkWeights::Next& next);
  // Returns the error for weights that could not be fetched from the device.
  static absl::Status Missing(const Chunk& chunk);
  // Copies the newest version of a chunk that is not being updated. Returns the
  // error of the chunk's pass if it has failed.
  absl::StatusOr<Snapshot::Chunk> CopyNow(Chunk* chunk)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk->mu);
  static void Publish(Chunk* chunk, bool more)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk->mu);
  // Returns the time of the monotonic clock if steps are traced, and an
  // unspecified time otherwise.
  absl::Time TraceTime() const;
  void TraceContribution(Chunk* chunk, int64_t step, int node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk->mu);
  // Records in the trace that, between `begin` and now, the chunk's newest
  // version, which `step` made, was published.
  void TracePublication(const Chunk& chunk, int64_t step, absl::Time begin)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(chunk.mu);

  // The fields below are set before the first contribution and constant
  // afterwards, or they have locks of their own.
  const Options options_;
  const int leaves_;
  const std::unique_ptr<const ConsistencyPolicy> policy_;
  const UpdateRecipe recipe_;
  const ExchangeTraits traits_;
  const ArenaLayout layout_;
  const ContributionCheck check_;
  // True if new weights are written with non-temporal stores.
  const bool streams_;
  Executor* const pool_;
  const std::unique_ptr<Optimizer> optimizer_;
  const int slots_;  // Number of the optimizer's slots.
  const SumsCallback on_sums_;
  const PinMemory pin_memory_;  // Null if memory need not be pinned.
  const std::shared_ptr<DeviceShare> device_share_;
  ReplicateCallback replicate_;  // Null in jobs without replicas.
  std::vector<int> chunk_numbers_;
  BufferPool buffers_;
  // Buffers for the 16-bit form of a chunk's weights, half the size of the
  // buffers in buffers_.
  BufferPool halves_;
  SumReports reports_;
  const std::unique_ptr<ChunkPassGroup> group_;
  // This server's chunks, in the order of chunk_numbers_.
  std::vector<std::unique_ptr<Chunk>> chunks_;
  // Chunks that wait for a thread of the pool. A chunk with a norm waits for a
  // call of Update. A chunk without a norm waits for a call of OnTaken, because
  // TakeUpdate has just taken an update of the chunk.
  UpdateQueue queue_;

  absl::Mutex subscribers_mu_;
  std::vector<WeightsSubscriber*> subscribers_ ABSL_GUARDED_BY(subscribers_mu_);

  // Acquired last.
  mutable absl::Mutex revoked_mu_;
  // Incarnations. A worker that is to blame for an entry is removed, and must
  // join again before it can cause a further one.
  std::set<int64_t> revoked_ ABSL_GUARDED_BY(revoked_mu_);
  // False while `revoked_` is empty, so that most contributions need no lock.
  std::atomic<bool> has_revoked_{false};

  absl::Mutex capture_mu_;  // Held during a call of TakeSnapshot.

  absl::once_flag failed_;

  absl::Mutex share_mu_;
  std::shared_ptr<SharedMemory> memory_ ABSL_GUARDED_BY(share_mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_UPDATE_ENGINE_H_
