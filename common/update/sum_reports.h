// Collects the StepSums that a server reports to the coordinator.
#ifndef TRIBUTARY_COMMON_UPDATE_SUM_REPORTS_H_
#define TRIBUTARY_COMMON_UPDATE_SUM_REPORTS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Combines the gradient sums of all chunks of a server into one report
// (StepSums) for each step. Thread-safe.
class SumReports {
 public:
  // What a chunk contributes to the report of a step.
  struct ChunkReport {
    int number = 0;
    int place = 0;  // Index among this server's chunks.
    int64_t elements = 0;
    int64_t step = 0;
    // The sum of the gradients that workers have sent for this chunk in this
    // step, with their losses and sample counts. Must be valid until Add
    // returns.
    const TreeSum* sum = nullptr;
    double sum_of_squares = 0;
  };

  // `chunks` is the number of the server's chunks.
  explicit SumReports(int chunks) : chunks_(chunks) {}

  // Adds the gradient sum of one chunk in one step. Call it once for each chunk
  // and step. Returns the step's report if all other chunks were added before,
  // otherwise nullopt. For each chunk whose sum of squares is not finite, the
  // report contains the position of the first nonfinite element of a
  // contribution, and the incarnation of the worker that sent the contribution
  // (see TreeSum::FindNonfinite). Both are 0 if every contribution is finite.
  std::optional<StepSums> Add(const ChunkReport& chunk)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Open {
    StepSums sums;
    int missing = 0;
  };

  const int chunks_;
  absl::Mutex mu_;
  // The reports of steps for which Add was called for some chunks but not for
  // all.
  std::map<int64_t, Open> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_SUM_REPORTS_H_
