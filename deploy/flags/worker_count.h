// The number of workers of a job: "4", or "1:8" for a minimum and a maximum.
#ifndef TRIBUTARY_DEPLOY_FLAGS_WORKER_COUNT_H_
#define TRIBUTARY_DEPLOY_FLAGS_WORKER_COUNT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace tributary {

struct WorkerCount {
  // Minimum number of workers: the job starts when this many have joined.
  int64_t fewest = 1;
  // Maximum number of workers that take part at a time; 0 if it is not
  // specified.
  int64_t most = 0;

  // Returns the count in the form that ParseWorkerCount parses: "4" or "1:8".
  std::string ToString() const;
};

// Parses a number of workers. Returns InvalidArgument, with the expected form,
// unless `text` is N or MIN:MAX with 1 <= MIN <= MAX <= `limit`. N stands for
// N:N.
absl::StatusOr<WorkerCount> ParseWorkerCount(absl::string_view text,
                                             int64_t limit);

// Returns the number of workers that can compute at the same time. This is the
// number of micro-batches, because each worker needs one of its own or, with a
// pipeline, each replica with a worker for each stage. In consistency mode
// asynchronous there is no limit, and the result is the
// maximum of int64_t. `job` must be a result of ResolveJob.
int64_t MostComputing(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_WORKER_COUNT_H_
