// Runs the passes of the chunks whose steps are complete.
#ifndef TRIBUTARY_COMMON_UPDATE_STEP_RUNNER_H_
#define TRIBUTARY_COMMON_UPDATE_STEP_RUNNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/parameters/snapshot.h"
#include "common/update/chunk_group.h"
#include "common/update/chunk_pass.h"
#include "common/update/chunk_updater.h"
#include "common/update/consistency/consistency_policy.h"
#include "common/update/update_trace.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Takes the chunks of a group from one state to the next: sums and updates them
// with their passes, reports the sums of each step, and publishes the versions.
// Works on a pool or, if a chunk's pass is brief (see ChunkPass), on the
// calling thread. The pool passes chunks that are ready at the same time to one
// call of the ChunkPassGroup. Chunks of the first layers have priority, because
// the next forward pass needs them first. Thread-safe.
class StepRunner {
 public:
  struct Options {
    ChunkGroup* group = nullptr;  // Must outlive the runner.
    // Decides when the sums of a step are complete. Must outlive the runner.
    const ConsistencyPolicy* policy = nullptr;
    std::unique_ptr<ChunkPassGroup> passes;
    bool awaits_norm = false;       // See ChunkUpdater::Settings.
    bool has_trust_ratios = false;  // See Optimizer.
    UpdateTrace* trace = nullptr;   // Null if no step is traced.
    // Called with the sums of each step, on any thread. For each chunk whose
    // sum of squares is not finite, they contain the position of the first
    // nonfinite element of a contribution, and the incarnation of the worker
    // that sent the contribution (see TreeSum::FindNonfinite).
    std::function<void(const StepSums&)> on_sums;
    // Called on the pool when no chunk is queued or being summed or updated
    // there.
    std::function<void()> on_idle;
    // Called with the error of the pass of a chunk.
    std::function<void(int chunk, const absl::Status&)> on_failure;
  };
  // Receives a copy of each new version of a chunk before it is published.
  // Called on any thread. The version is published when `kept` is called: by
  // the callback itself or later, on any thread.
  using ReplicateCallback = std::function<void(
      int64_t version, Snapshot::Chunk copy, std::function<void()> kept)>;

  // `pool` must outlive the runner, and be drained before it is destroyed.
  StepRunner(Executor* pool, Options options);

  // Sets the callback that copies each new version to a different process. Call
  // it before any other method.
  void SetReplicator(ReplicateCallback replicate) {
    replicate_ = std::move(replicate);
  }
  // Sums or updates a chunk whose contributions have completed its step.
  void Begin(ChunkUpdater* chunk) ABSL_LOCKS_EXCLUDED(mu_);
  // Updates the chunks that wait for the norm of this step, and for the trust
  // ratios, which are null if the optimizer has none.
  void SetGradientNorm(int64_t step, double norm,
                       std::shared_ptr<const std::vector<float>> trust_ratios =
                           nullptr) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the number of chunks that wait for a thread of the pool.
  int queued() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return static_cast<int>(queue_.size());
  }

 private:
  using Chunks = absl::Span<ChunkUpdater* const>;

  // The sums of a step that is not complete.
  struct Open {
    StepSums sums;
    // Indexed by ChunkUpdater::place; empty without trust ratios.
    std::vector<std::vector<TensorSquares>> tensors;
    int missing = 0;  // Number of chunks that are not added yet.
  };

  // Queues a chunk, which must not be queued already, for a thread of the pool:
  // with a norm, for a call of Update, and without, for a call of BeginSteps.
  void Queue(ChunkUpdater* chunk, std::optional<double> norm)
      ABSL_LOCKS_EXCLUDED(mu_);
  void RunNext() ABSL_LOCKS_EXCLUDED(mu_);
  // Removes and returns the next queued chunks, which have the same norm, and
  // sets `*norm` to it. Divides the queued chunks among the streams of the
  // passes. Empty if other calls took all chunks.
  std::vector<ChunkUpdater*> Take(std::optional<double>* norm)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Updates the chunks, whose step is complete, or, if updates wait for the
  // norm, sums their gradients and reports the sums of squares.
  void BeginSteps(Chunks chunks, bool more);
  // Computes the next versions of the chunks. `norm` is the step's norm from
  // SetGradientNorm, or nullopt if updates do not wait for it; then each chunk
  // uses its ChunkUpdate::gradient_norm. See WeightsVersion for `more`.
  void Update(Chunks chunks, std::optional<double> norm, bool more);
  // Publishes the new version, and begins the next step if it is complete.
  void Publish(ChunkUpdater* chunk, bool more);
  // Adds the gradient sum of a chunk to the sums of its step, which it reports
  // if they are complete. `tensors` is empty without trust ratios.
  void ReportSum(const ChunkUpdater& chunk, double sum_of_squares,
                 std::vector<TensorSquares> tensors = {})
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the time of the monotonic clock if steps are traced, and an
  // unspecified time otherwise.
  absl::Time TraceTime() const;

  Executor* const pool_;
  const Options options_;
  ReplicateCallback replicate_;  // Null in jobs without replicas.

  mutable absl::Mutex mu_;
  // Maps the number of a queued chunk to the norm that it was queued with.
  std::map<int, std::optional<double>> queue_ ABSL_GUARDED_BY(mu_);
  // Number of chunks that are queued or running on the pool.
  int unfinished_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, Open> open_ ABSL_GUARDED_BY(mu_);  // Indexed by step.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_STEP_RUNNER_H_
