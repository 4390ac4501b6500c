// The contents of summary.json.
#ifndef TRIBUTARY_SERVER_PROGRESS_RUN_SUMMARY_H_
#define TRIBUTARY_SERVER_PROGRESS_RUN_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/progress/job_progress.h"

namespace tributary {

// The final statistics of one process of the job.
struct ProcessReport {
  std::string role;  // "server" or "worker".
  int rank = 0;
  ProcessStatistics statistics;
  // See the fields of ProcessStatus with the same names.
  std::string host;
  int64_t pid = 0;
  std::string release;
  std::string device;
};

// The state of a run when it ends. The pointers must stay valid while the
// object is used.
struct RunFacts {
  const JobSpec* job = nullptr;
  absl::Status failure;  // OK if the job did not fail.
  // True if the job was stopped by request before its end.
  bool stopped = false;
  int64_t attempt = 1;  // Number of the last attempt.
  int64_t checkpoint_failures = 0;
  std::string checkpoint_failure;  // The reason of the newest failure.
  // Number of steps skipped because the gradient was not finite.
  int64_t skipped_steps = 0;
  // Null if the run ended before its model and data were known.
  const JobProgress* progress = nullptr;
  int64_t parameters = 0;
  int workers = 0;  // Largest number of workers at the same time.
  int64_t workers_lost = 0;
  // Number of times that micro-batches were reassigned because the workers'
  // speeds differed.
  int64_t reassignments_by_speed = 0;
  int servers = 0;
  std::vector<ProcessReport> processes;
  // Digest of the final model; empty if there is none.
  std::string weights_sha256;
};

// Returns the text of summary.json. At the top level, `seconds` is
// JobTotals::seconds; the other fields in seconds (compute_seconds, ...) and
// in bytes are sums over the workers. Times are wall time, except cpu_seconds.
// exchange_seconds includes waiting_seconds. Latencies cover all chunks and
// workers.
std::string SummaryJson(const RunFacts& facts);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_RUN_SUMMARY_H_
