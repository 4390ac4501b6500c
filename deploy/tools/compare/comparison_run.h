// Runs one job with several exchanges on this machine, one after another.
#ifndef TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_RUN_H_
#define TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_RUN_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/progress_display.h"
#include "deploy/tools/compare/comparison.h"
#include "deploy/tools/compare/exchange_variants.h"
#include "proto/job.pb.h"
#include "worker/training/training_sources.h"

namespace tributary {

struct ComparisonOptions {
  std::string job_name;
  std::string model;  // ModelTitle of the job.
  ExchangeVariants variants;
  int workers = 1;
  int threads = 1;                    // Compute threads of each worker.
  std::string server_device = "cpu";  // Not used by all-reduce.
  std::string worker_device = "cpu";
  TrainingSources sources;  // Of runs in this process.
  std::string output;       // Folder in which each run has a folder of its own.
  bool overwrite = false;
  ProgressStyle progress = ProgressStyle::kNone;
};

// Returns `job` as a comparison of exchanges trains it: without checkpoints and
// evaluated only at its end, so that the time of a step includes only training.
// If `job` sets `steps`, the returned job writes about a hundred lines of
// metrics.
JobSpec JobToCompare(JobSpec job);

struct ComparisonResult {
  Comparison comparison;
  // The exit code of `tributary compare`: kExitDone if every run is done; the
  // signal's exit code if a signal stopped the comparison; kExitUsage if all
  // runs failed with kExitUsage; otherwise kExitFailed.
  int exit_code = 0;
};

// Trains the job once with each exchange in `options`, one run after another.
// Blocks until all runs are done or a signal arrives. After each run, calls
// `changed` with the results so far; if `changed` returns an error, ends the
// comparison and returns that error. If a run fails, records its error and
// continues with the next run. Removes the model of each run; its metrics,
// summary and logs remain. `signals` must have been created with
// `with_children` set. Before the first run, claims a folder for each run and
// returns the errors of OutputDirectory::Claim, such as FailedPrecondition if
// results of an earlier run exist and `overwrite` is false.
absl::StatusOr<ComparisonResult> RunComparison(
    const ComparisonOptions& options, SignalQueue* signals,
    const std::function<absl::Status(const Comparison&)>& changed);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_RUN_H_
