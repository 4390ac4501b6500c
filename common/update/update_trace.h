// Traces what an UpdateEngine does; see OutputSpec.trace.
#ifndef TRIBUTARY_COMMON_UPDATE_UPDATE_TRACE_H_
#define TRIBUTARY_COMMON_UPDATE_UPDATE_TRACE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/trace/trace_recorder.h"

namespace tributary {

// Records when the engine adds contributions, sums and updates chunks, and
// publishes versions, in the steps that the job traces. Thread-safe and
// wait-free, except for Contributions.
class UpdateTrace {
 public:
  // The contributions to one chunk that no update has applied yet. Not
  // thread-safe.
  class Contributions {
   public:
    // Records that the contribution of reduction tree node `node` to `step` has
    // arrived.
    void Add(int64_t step, int node);
    // Removes and returns the nodes of the contributions to `step`, and removes
    // the contributions to earlier steps.
    std::vector<int> Take(int64_t step);

   private:
    std::vector<std::pair<int64_t, int>> nodes_;  // Step and node.
  };

  // `recorder` must outlive this object.
  explicit UpdateTrace(TraceRecorder* recorder);

  // Returns true if the step is traced.
  bool Wants(int64_t step) const { return recorder_->Wants(step); }
  // Records that the engine added a contribution to the chunk's queue between
  // `begin` and now.
  void Contributed(int64_t step, int chunk, absl::Time begin);
  // Records that, between `begin` and `end`, the contributions to the chunk
  // were added up, to compute the gradient's norm.
  void Summed(int64_t step, int chunk, absl::Time begin, absl::Time end);
  // Records that an update of the chunk, which applied the contributions of
  // `nodes`, began at time `begin` and ended at time `end`.
  void Updated(int64_t step, int chunk, const std::vector<int>& nodes,
               absl::Time begin, absl::Time end);
  // Records that, between `begin` and now, the chunk's version after `step` was
  // passed to the workers whose incarnations are `receivers`.
  void Published(int64_t step, int chunk, absl::Span<const int64_t> receivers,
                 absl::Time begin);

 private:
  TraceRecorder* const recorder_;
  const int contribution_track_, update_track_, publication_track_;
  const int contribution_, sum_, update_, publication_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_UPDATE_TRACE_H_
