// Runs one job under several exchanges on this machine, one after the other.
#ifndef TRIBUTARY_DEPLOY_COMPARE_COMPARISON_RUN_H_
#define TRIBUTARY_DEPLOY_COMPARE_COMPARISON_RUN_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "deploy/compare/comparison.h"
#include "deploy/compare/exchange_variants.h"
#include "deploy/flags/signals.h"
#include "deploy/launcher/progress.h"
#include "proto/job.pb.h"

namespace tributary {

struct ComparisonOptions {
  std::string job_name;
  ExchangeVariants variants;
  int workers = 1;
  int threads = 1;                    // Of each worker.
  std::string server_device = "cpu";  // But for all-reduce.
  std::string worker_device = "cpu";
  std::string output;  // Each run writes to a folder in it.
  bool overwrite = false;
  ProgressStyle progress = ProgressStyle::kNone;
};

// A job as it is compared: without checkpoints, evaluated at its end only, so
// that a step is nothing but training, and with about a hundred metrics lines.
JobSpec JobToCompare(JobSpec job);

struct ComparisonResult {
  Comparison comparison;
  // kExitDone if every run is done; otherwise that of the signal that stopped
  // it, kExitUsage if all runs failed with that, or kExitFailed.
  int exit_code = 0;
};

// Blocks until all is done or a signal has come. After each run `changed` is
// called with what is known so far; an error of it ends the comparison. A run
// that fails is written down, and the others go on. Of each run its model is
// removed again, its metrics, summary and logs stay. `signals` must have been
// made with_children. FailedPrecondition if results of earlier runs are in the
// way.
absl::StatusOr<ComparisonResult> RunComparison(
    const ComparisonOptions& options, SignalQueue* signals,
    const std::function<absl::Status(const Comparison&)>& changed);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMPARE_COMPARISON_RUN_H_
