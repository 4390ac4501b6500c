// Runs the passes of the chunks whose steps are complete.
#ifndef TRIBUTARY_COMMON_UPDATE_STEP_RUNNER_H_
#define TRIBUTARY_COMMON_UPDATE_STEP_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/parameters/snapshot.h"
#include "common/update/chunk_group.h"
#include "common/update/chunk_pass.h"
#include "common/update/chunk_updater.h"
#include "common/update/update_queue.h"
#include "common/update/update_trace.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Takes the chunks of a group from one state to the next: sums and updates them
// with their passes, and publishes their versions. Works on a pool or, if a
// chunk's pass is brief (see ChunkPass), on the calling thread. Thread-safe.
class StepRunner {
 public:
  struct Options {
    ChunkGroup* group = nullptr;  // Must outlive the runner.
    std::unique_ptr<ChunkPassGroup> passes;
    bool awaits_norm = false;      // See ChunkUpdater::Settings.
    UpdateTrace* trace = nullptr;  // Null if no step is traced.
    // Called with the sums of each step, on any thread.
    std::function<void(const StepSums&)> on_sums;
    // Called when no update is running or queued on the pool.
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
  void Begin(ChunkUpdater* chunk);
  // Updates the chunks that wait for the norm of this step.
  void SetGradientNorm(int64_t step, double norm);
  // Returns the number of chunks that wait for a thread of the pool.
  int queued() const { return queue_.size(); }

 private:
  using Chunks = absl::Span<ChunkUpdater* const>;

  UpdateQueue::Options QueueOptions();
  // Updates the chunks, whose step is complete, or, if updates wait for the
  // norm, sums their gradients and reports the sums of squares.
  void BeginSteps(Chunks chunks, bool more);
  // Computes the next versions of the chunks. `norm` is the step's norm from
  // SetGradientNorm, or nullopt if updates do not wait for it; then each chunk
  // uses its ChunkUpdate::gradient_norm. See WeightsVersion for `more`.
  void Update(Chunks chunks, std::optional<double> norm, bool more);
  // Publishes the new version, and begins the next step if it is complete.
  void Publish(ChunkUpdater* chunk, bool more);
  void ReportSum(const ChunkUpdater& chunk, double sum_of_squares);
  // Returns the time of the monotonic clock if steps are traced, and an
  // unspecified time otherwise.
  absl::Time TraceTime() const;

  const Options options_;
  ReplicateCallback replicate_;  // Null in jobs without replicas.
  // Chunks that wait for a thread of the pool: with a norm, for a call of
  // Update, and without, for a call of BeginSteps.
  UpdateQueue queue_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_STEP_RUNNER_H_
