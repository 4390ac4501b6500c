// What summary.json says of a run.
#ifndef TRIBUTARY_SERVER_PROGRESS_RUN_SUMMARY_H_
#define TRIBUTARY_SERVER_PROGRESS_RUN_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/progress/job_progress.h"

namespace tributary {

// A process's last words.
struct ProcessReport {
  std::string role;  // "server" or "worker".
  int rank = 0;
  ProcessStatistics statistics;
};

// What is known of a run when it ends. Pointers are borrowed.
struct RunFacts {
  const JobSpec* job = nullptr;
  absl::Status failure;  // OK: the job is done.
  bool stopped = false;  // By request, before its end.
  int64_t attempt = 1;   // How often it has begun, or gone back.
  int64_t checkpoint_failures = 0;
  int64_t skipped_steps = 0;  // Their gradients were not finite.
  // Null if no worker was ever ready.
  const JobProgress* progress = nullptr;
  int64_t parameters = 0;
  int workers = 0;  // At the same time, at most.
  int64_t workers_lost = 0;
  int64_t reassignments_by_speed = 0;  // Because other shares were faster.
  int servers = 0;
  std::vector<ProcessReport> processes;
};

// All but the weights' digest. Bytes and seconds at the top level are sums over
// the workers; seconds are wall time, of which waiting_seconds are a part of
// exchange_seconds. The latency is that of all chunks.
nlohmann::ordered_json SummaryJson(const RunFacts& facts);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_RUN_SUMMARY_H_
