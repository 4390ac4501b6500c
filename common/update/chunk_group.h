// Chunks that take each step together.
#ifndef TRIBUTARY_COMMON_UPDATE_CHUNK_GROUP_H_
#define TRIBUTARY_COMMON_UPDATE_CHUNK_GROUP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/update/chunk_updater.h"
#include "common/update/consistency/consistency_policy.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Chunks whose steps are complete together, such as all chunks of a server.
// Combines their gradient sums into one report (StepSums) for each step. The
// ConsistencyPolicy decides when a step is complete. Different groups may be at
// different steps. Thread-safe.
class ChunkGroup {
 public:
  // `policy` must outlive this object. The job has `steps` rounds.
  ChunkGroup(const ConsistencyPolicy* policy, int64_t steps)
      : policy_(*policy), steps_(steps) {}

  // Adds a chunk. The chunks must be added in the order of their numbers and
  // places, the first of which is 0, before any other call.
  void Add(std::unique_ptr<ChunkUpdater> chunk) {
    chunks_.push_back(std::move(chunk));
  }
  const std::vector<std::unique_ptr<ChunkUpdater>>& chunks() const {
    return chunks_;
  }
  // Returns null if the group does not have this chunk.
  ChunkUpdater* Find(int number) const;

  // Returns the oldest of the chunks' versions, which is the number of steps
  // that were applied to all chunks. Returns -1 if some chunk has no version,
  // and the job's number of steps if the group has no chunks.
  int64_t CompleteVersion() const;
  // Returns a micro-batch that the oldest of the chunks waits for; nullopt if
  // it waits for none, or if steps have no order.
  std::optional<MissingWork> FindMissingWork() const;

  // Adds the gradient sum of the current step of a chunk. Call it once for each
  // chunk and step. Returns the step's report if the step is complete,
  // otherwise nullopt. For each chunk whose sum of squares is not finite, the
  // report contains the position of the first nonfinite element of a
  // contribution, and the incarnation of the worker that sent the contribution
  // (see TreeSum::FindNonfinite).
  std::optional<StepSums> AddSum(const ChunkUpdater& chunk,
                                 double sum_of_squares)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Open {
    StepSums sums;
    int missing = 0;  // Number of chunks that are not added yet.
  };

  const ConsistencyPolicy& policy_;
  const int64_t steps_;
  std::vector<std::unique_ptr<ChunkUpdater>> chunks_;

  absl::Mutex mu_;
  // The reports of steps that are not complete.
  std::map<int64_t, Open> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CHUNK_GROUP_H_
