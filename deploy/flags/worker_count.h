// How many workers a job wants: "4", or from "1:8" the fewest and the most.
#ifndef TRIBUTARY_DEPLOY_FLAGS_WORKER_COUNT_H_
#define TRIBUTARY_DEPLOY_FLAGS_WORKER_COUNT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace tributary {

struct WorkerCount {
  // The job begins when so many are there.
  int64_t fewest = 1;
  // So many take part at the same time; 0: nobody has said.
  int64_t most = 0;

  // As it was written.
  std::string ToString() const;
};

// InvalidArgument for anything but N and MIN:MAX with 1 <= MIN <= MAX <=
// `limit`; "N" is N:N. The message says what is expected.
absl::StatusOr<WorkerCount> ParseWorkerCount(absl::string_view text,
                                             int64_t limit);

// So many workers can compute at the same time: each needs a micro-batch of its
// own, but in consistency mode asynchronous, where there is no limit. The job
// is resolved.
int64_t MostComputing(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_WORKER_COUNT_H_
