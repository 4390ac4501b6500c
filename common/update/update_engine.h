// Holds weights and applies gradients to them: a server's part of the weights,
// its optimizer state, and the updates that turn contributions (gradient sums
// that workers send) into new versions.
#ifndef TRIBUTARY_COMMON_UPDATE_UPDATE_ENGINE_H_
#define TRIBUTARY_COMMON_UPDATE_UPDATE_ENGINE_H_

#include <cstdint>
#include <functional>
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
#include "common/job/exchange_traits.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/chunk_ranges.h"
#include "common/parameters/memory_view.h"
#include "common/parameters/snapshot.h"
#include "common/parameters/trust_ratios.h"
#include "common/update/block_pass.h"
#include "common/update/chunk_group.h"
#include "common/update/chunk_pass.h"
#include "common/update/chunk_updater.h"
#include "common/update/consistency/consistency_policy.h"
#include "common/update/contribution_check.h"
#include "common/update/revoked_workers.h"
#include "common/update/sample_counts.h"
#include "common/update/step_runner.h"
#include "common/update/tables/step_sums_join.h"
#include "common/update/tables/table_engine.h"
#include "common/update/update_memory.h"
#include "common/update/update_trace.h"
#include "common/update/weights_subscriber.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Holds chunks of the weights and applies contributions to them. Knows neither
// where contributions come from nor where versions go. Thread-safe.
//
// A ChunkUpdater holds each chunk and the state of its step. The
// ConsistencyPolicy of the job's mode decides which contribution completes a
// step. This contribution schedules the update on the thread pool or, if the
// pass is brief (see ChunkPass), runs it at once. The chunk's ChunkPass, on the
// CPU or on a GPU, sums the gradients, which it reads from the memory in which
// they arrived. It reads version s of the chunk, which is the newest version,
// and writes version s + 1 into a different buffer. The engine then publishes
// version s + 1. When the gradients of a step have been summed for all chunks
// of this engine, `on_sums` receives the step's StepSums, with the sum of
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
// memory that workers on this host read directly (UpdateMemory::ShareWeights):
// version v is in arena v % 2. The update to version s + 2 overwrites version
// s, which is not needed. A straggler may still be reading version s and see a
// mixture of both versions; its contribution belongs to a completed step and is
// dropped. Values that a stream sends are copied first, because gRPC may still
// be sending them when they are overwritten. The weights that workers read may
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
    // from any thread and with a lock of the engine held, so the callback must
    // not call the engine. After a failure the chunk, and therefore the job,
    // makes no progress; versions that were published before stay valid. May be
    // null.
    std::function<void(const absl::Status&)> on_failure;
    // Records what the engine does in the traced steps. Null if no step is
    // traced. Must outlive the engine.
    UpdateTrace* trace = nullptr;
  };
  using SumsCallback = std::function<void(const StepSums&)>;
  // `pool` must outlive the engine. Before the engine is destroyed, `pool` must
  // be drained and all `kept` callbacks must have returned or been destroyed.
  // `on_sums` is called once for each step, on any thread, unless this engine
  // has neither chunks nor tables. In synchronous mode, the calls are in the
  // order of steps. Returns errors of `make_passes`, ConsistencyPolicy::Create
  // and TableEngine::Create.
  static absl::StatusOr<std::unique_ptr<UpdateEngine>> Create(
      const Options& options, ArenaLayout layout, Executor* pool,
      SumsCallback on_sums);

  const ArenaLayout& layout() const { return layout_; }
  const JobSpec& job() const { return options_.job; }
  const ExchangeTraits& traits() const { return traits_; }
  // Returns the names of the optimizer's state arrays.
  std::vector<std::string> slot_names() const {
    return optimizer_->slot_names();
  }
  // Returns the numbers of this engine's chunks, ascending.
  const std::vector<int>& chunk_numbers() const { return chunk_numbers_; }
  // Returns this engine's chunks, to look at their states and versions.
  const ChunkGroup& chunks() const { return dense_; }
  UpdateMemory& memory() { return memory_; }

  // Sets the callback that copies each new version to a different process. Call
  // it before AddInitial and AddContribution. In a job with replicas, updates
  // wait for SetGradientNorm.
  void SetReplicator(StepRunner::ReplicateCallback replicate) {
    runner_.SetReplicator(std::move(replicate));
    settings_.replicates = true;
  }

  // Returns InvalidArgument if the chunk does not belong to this engine.
  absl::Status CheckChunk(int chunk) const;

  // Sets version 0 of a chunk, at once or on the pool. No effect if the chunk
  // already has a version. Returns InvalidArgument if the chunk does not belong
  // to this engine.
  absl::Status AddInitial(int chunk, Buffer values);

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

  // Drops the contributions of the worker with this incarnation to steps that
  // are not complete, and refuses all later ones with Aborted.
  void Revoke(int64_t incarnation);
  // Returns Aborted if the worker was revoked.
  absl::Status CheckNotRevoked(int64_t incarnation) const {
    return revoked_.Check(incarnation);
  }
  // Returns the number of chunks that have all gradients of a step and wait for
  // a thread of the pool. For metrics.
  int QueuedUpdates() const { return runner_.queued(); }

  // Adds a contribution. Also returns OK if the contribution is no longer
  // needed and was dropped. Returns InvalidArgument, FailedPrecondition or
  // ResourceExhausted, stating what is wrong, for a contribution that no
  // correct worker sends; the engine is then unchanged.
  absl::Status AddContribution(int chunk, NodeSum sum);

  // Returns the tables of the job; null if it has none.
  TableEngine* tables() const { return tables_.get(); }

  // Sets the L2 norm of the mean gradient of `step`, and the trust ratios (see
  // TrustRatios::Of) if the optimizer has them. In modes that apply steps in
  // order, the updates of jobs that clip gradients, skip nonfinite gradients,
  // have trust ratios or have replicas wait for them. Other jobs ignore the
  // norm. Returns InvalidArgument, and does nothing, for a wrong number of
  // trust ratios, or for one that is negative or not finite.
  absl::Status SetGradientNorm(int64_t step, double norm,
                               std::vector<float> trust_ratios = {});

  // Returns the number of versions of each chunk that workers may need (see
  // ConsistencyPolicy).
  int useful_versions() const { return policy_->useful_versions(); }

  // Calls `subscriber` for the existing versions, and for every new version, of
  // those of this engine's chunks that are in `chunks`, until Unsubscribe
  // returns. `place` is where the subscriber reads the
  // weights: kHost for WeightsVersion::values, kShared for the memory of
  // UpdateMemory::ShareWeights, which must have been called before, or kDevice
  // for DeviceShare::weights(). Omits the values unless `place` is kHost.
  // Versions that cannot be copied from the device to `place` are left out.
  // While all subscribers read from the device, versions are not copied to the
  // host. The call for the first subscriber with a different place blocks until
  // the existing versions are copied.
  void Subscribe(WeightsSubscriber* subscriber, MemoryPlace place,
                 const ChunkRanges& chunks = ChunkRanges())
      ABSL_LOCKS_EXCLUDED(subscribers_mu_);
  void Unsubscribe(WeightsSubscriber* subscriber)
      ABSL_LOCKS_EXCLUDED(subscribers_mu_);

  // Returns the weights of this version of the chunk, in the form that the
  // optimizer uses, which is float32, or in the form in which streams send
  // them. Returns FailedPrecondition if the chunk does not have this version,
  // InvalidArgument if the chunk does not belong to this engine, and Internal
  // if the version cannot be copied from the device.
  absl::StatusOr<WeightsVersion> Read(int chunk, int64_t version,
                                      WeightsForm form = WeightsForm::kExact);

 private:
  UpdateEngine(const Options& options, ArenaLayout layout, Executor* pool,
               std::unique_ptr<ConsistencyPolicy> policy,
               std::unique_ptr<Optimizer> optimizer, ChunkPasses passes,
               SumsCallback on_sums);

  ChunkUpdater::Settings ChunkSettings();
  StepRunner::Options RunnerOptions(std::unique_ptr<ChunkPassGroup> passes,
                                    SumsCallback on_sums);

  // The fields below are set before the first contribution and constant
  // afterwards, or they have locks of their own.
  const Options options_;
  const std::unique_ptr<const ConsistencyPolicy> policy_;
  const UpdateRecipe recipe_;
  const ExchangeTraits traits_;
  const ArenaLayout layout_;
  const ContributionCheck check_;
  Executor* const pool_;
  const std::unique_ptr<Optimizer> optimizer_;
  const std::vector<int> chunk_numbers_;
  RevokedWorkers revoked_;
  // Chunks of dense parameters: all chunks, in the order of chunk_numbers_.
  ChunkGroup dense_;
  UpdateMemory memory_;
  StatedRates rates_;
  // Nullopt if the optimizer has none.
  const std::optional<TrustRatios> trust_ratios_;
  ChunkUpdater::Settings settings_;
  // Null in jobs without tables.
  std::unique_ptr<StepSumsJoin> sums_;
  StepRunner runner_;
  std::unique_ptr<TableEngine> tables_;

  absl::Mutex subscribers_mu_;
  std::vector<WeightsSubscriber*> subscribers_ ABSL_GUARDED_BY(subscribers_mu_);

  absl::Mutex capture_mu_;  // Held during a call of TakeSnapshot.
};

// Returns the newest step that a worker may have begun to compute. A worker
// that has received a version of one chunk may compute from it before the
// engine's chunks have it, and one that knows that a step of the tables is
// complete may contribute to the next one before the tables have its version.
int64_t NewestPossibleStep(const UpdateEngine& engine);

// ChunkGroup::CompleteVersion and ChunkGroup::FindMissingWork for chunks and
// tables together: the oldest version, and what the oldest of them waits for.
int64_t CompleteVersion(const UpdateEngine& engine);
std::optional<MissingWork> FindMissingWork(const UpdateEngine& engine);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_UPDATE_ENGINE_H_
