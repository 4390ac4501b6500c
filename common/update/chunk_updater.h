// One chunk of an UpdateEngine: its weights, and the state of its next step.
#ifndef TRIBUTARY_COMMON_UPDATE_CHUNK_UPDATER_H_
#define TRIBUTARY_COMMON_UPDATE_CHUNK_UPDATER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/buffer_pool.h"
#include "common/optimizer/stated_rates.h"
#include "common/optimizer/update_recipe.h"
#include "common/parameters/memory_view.h"
#include "common/parameters/snapshot.h"
#include "common/parameters/trust_ratios.h"
#include "common/update/chunk_pass.h"
#include "common/update/chunk_subscribers.h"
#include "common/update/chunk_weights.h"
#include "common/update/consistency/consistency_policy.h"
#include "common/update/revoked_workers.h"
#include "common/update/update_trace.h"
#include "common/update/weights_subscriber.h"
#include "proto/job.pb.h"

namespace tributary {

// A chunk of the weights that takes one step after the other. Each step is a
// cycle of the states below. The owner runs the chunk's pass, and reports each
// event with the method that is named after it.
//
//   kCollecting --Contribute--> kUpdating           if updates do not wait for
//                                                   the norm, otherwise:
//   kCollecting --Contribute--> kSumming --SumDone--> kAwaitingNorm
//       --NormKnown--> kUpdating
//   kUpdating --UpdateDone--> kReplicating --Publish--> kCollecting
//
// A contribution may arrive in any state. If contributions that arrived early
// complete the next step, Publish does what Contribute does.
//
// Thread-safe. The owner must make the calls of one step in the order above.
// Calls block only while the lock is held by a call that copies weights from or
// to a device.
class ChunkUpdater {
 public:
  enum class State {
    kCollecting,    // Waits for contributions to the step after its version.
    kSumming,       // The step is complete; its gradient must be summed.
    kAwaitingNorm,  // The gradient is summed; its norm is not known.
    kUpdating,      // The next version must be, or is being, computed.
    kReplicating,   // The next version may be published once it is replicated.
  };

  // What all chunks of an engine have in common.
  struct Settings {
    ExchangeSpec exchange;
    bool awaits_norm = false;  // See ExchangeTraits::updates_await_norm.
    bool replicates = false;   // True if versions are replicated.
    bool streams = false;      // See ChunkPass::Arguments.
    // Null if the optimizer has no trust ratios.
    const TrustRatios* trust_ratios = nullptr;
    int slots = 0;  // Number of the optimizer's slots.
    int64_t attempt = 1;
    const UpdateRecipe* recipe = nullptr;
    // The rates that workers state; null if they cannot.
    const StatedRates* rates = nullptr;
    BufferPool* buffers = nullptr;  // With room for any chunk.
    BufferPool* halves = nullptr;   // Half the size, for weights as 16 bits.
    bool shares_device = false;     // True if ChunkPasses::share is not null.
    UpdateTrace* trace = nullptr;   // Null if no step is traced.
    const RevokedWorkers* revoked = nullptr;
    // Called with the error of a pass, possibly with the chunk's lock held.
    std::function<void(int chunk, const absl::Status&)> on_failure;
  };

  // `settings` must outlive this object. `place` is the chunk's index in
  // snapshots, and `elements` its size.
  ChunkUpdater(const Settings* settings, int number, int place,
               int64_t elements, std::unique_ptr<ContributionQueue> queue,
               std::unique_ptr<ChunkPass> pass);

  int number() const { return number_; }
  int place() const { return place_; }
  int64_t elements() const { return elements_; }
  ChunkPass* pass() const { return pass_.get(); }
  // Returns the update of the current step. Constant from the call that ends
  // kCollecting until Publish.
  const ChunkUpdate& update() const { return update_; }
  State state() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the newest version, or -1 if the chunk has no weights yet.
  int64_t version() const ABSL_LOCKS_EXCLUDED(mu_);

  // Sets and publishes the first version, with the optimizer's state `slots`
  // (empty: all elements are zero). No effect if the chunk has a version.
  void Initialize(int64_t version, Buffer values, std::vector<Buffer> slots)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Adds a contribution. Returns true if it completes the step: the owner must
  // then sum or update the chunk. Returns the errors of
  // ContributionQueue::Add, and Aborted if the sender was revoked.
  absl::StatusOr<bool> Contribute(NodeSum sum) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the arguments of ChunkPass::SumTensorSquares for the current step.
  // Call it while summing.
  ChunkPass::TensorArguments TensorArguments() ABSL_LOCKS_EXCLUDED(mu_);
  // The pass has summed the gradient, between `begin` and `end`.
  void SumDone(absl::Time begin, absl::Time end) ABSL_LOCKS_EXCLUDED(mu_);
  // The norm of the gradient of `step` is known and, if the optimizer has trust
  // ratios, so are those of all parameters (see TrustRatios::Of). Returns true
  // if the chunk has waited for them: the owner must then update the chunk.
  bool NormKnown(int64_t step,
                 std::shared_ptr<const std::vector<float>> trust_ratios =
                     nullptr) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the arguments of the pass that computes the next version, valid
  // until Publish. `norm` is the norm of the mean gradient, by which the pass
  // clips.
  const ChunkPass::Arguments& BeginUpdate(double norm) ABSL_LOCKS_EXCLUDED(mu_);
  // The pass has computed the next version, between `begin` and `end`. Returns
  // a copy of it for the replica; empty if versions are not replicated.
  Snapshot::Chunk UpdateDone(absl::Time begin, absl::Time end)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The next version is replicated, or need not be. Publishes it (see
  // WeightsVersion for `more`). Returns true if the step after it is complete:
  // the owner must then sum or update the chunk.
  bool Publish(bool more) ABSL_LOCKS_EXCLUDED(mu_);

  // Drops the contributions of this contributor that no update contains yet.
  void DropFrom(int64_t contributor) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns a micro-batch that the chunk's next step, if that is `step`, waits
  // for; nullopt if it waits for none.
  std::optional<int> FirstMissing(int64_t step) const ABSL_LOCKS_EXCLUDED(mu_);

  // Copies the chunk at the version of `capture`: at once, or when the chunk
  // reaches this version. Replaces an earlier capture; null ends it. Returns
  // false if the chunk has a newer version, is being updated to or from this
  // version, or cannot be copied.
  bool Capture(std::shared_ptr<SnapshotCapture> capture)
      ABSL_LOCKS_EXCLUDED(mu_);
  // See UpdateEngine::Read.
  absl::StatusOr<WeightsVersion> Read(int64_t version, WeightsForm form)
      ABSL_LOCKS_EXCLUDED(mu_);
  // See UpdateEngine::Subscribe.
  void Subscribe(WeightsSubscriber* subscriber, MemoryPlace place)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Unsubscribe(WeightsSubscriber* subscriber) ABSL_LOCKS_EXCLUDED(mu_);
  // See ChunkWeights::Share.
  void Share(Buffer even, Buffer odd) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // An update of the chunk, from NormKnown or BeginUpdate to Publish.
  struct Run {
    ChunkWeights* weights = nullptr;
    ChunkWeights::Next next;
    std::shared_ptr<SnapshotCapture> capture;
    Snapshot::Chunk copy;           // Empty if no copy is needed.
    std::vector<int> traced_nodes;  // Empty if the step is not traced.
    // Of all parameters; null if the optimizer has none.
    std::shared_ptr<const std::vector<float>> trust_ratios;
    ChunkPass::Arguments arguments;  // Its pointers refer to the fields above.
  };

  // Ends kCollecting if the queue has a complete step; returns true if so.
  // Sends the outcomes of contributions that cause no update.
  bool TakeUpdate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Copies the newest version of a chunk that is not being updated.
  absl::StatusOr<Snapshot::Chunk> CopyNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the error for weights that could not be fetched from the device.
  absl::Status Missing() const;

  const Settings& settings_;
  const int number_;
  const int place_;
  const int64_t elements_;
  const std::unique_ptr<ChunkPass> pass_;

  mutable absl::Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kCollecting;
  // Guarded by mu_, except for calls of Complete (see ChunkWeights).
  ChunkWeights weights_ ABSL_GUARDED_BY(mu_);
  const std::unique_ptr<ContributionQueue> queue_ ABSL_PT_GUARDED_BY(mu_);
  ChunkSubscribers subscribers_ ABSL_GUARDED_BY(mu_);
  // The snapshot for which this chunk must still be copied; null if there is
  // none.
  std::shared_ptr<SnapshotCapture> capture_ ABSL_GUARDED_BY(mu_);
  // For the trace: the contributions that no update has applied yet. Empty if
  // no step is traced.
  UpdateTrace::Contributions traced_ ABSL_GUARDED_BY(mu_);

  // Accessed only by the step under way.
  ChunkUpdate update_;
  Run run_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CHUNK_UPDATER_H_
