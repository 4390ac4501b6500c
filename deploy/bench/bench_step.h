// Times one training step: in this process alone, in several processes that
// have nothing to do with one another, and in several that exchange.
#ifndef TRIBUTARY_DEPLOY_BENCH_BENCH_STEP_H_
#define TRIBUTARY_DEPLOY_BENCH_BENCH_STEP_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "deploy/bench/bench_jobs.h"
#include "deploy/flags/signals.h"

namespace tributary {

struct StepTiming {
  int64_t parameters = 0;
  int64_t batch_per_worker = 0;
  int64_t steps = 0;
  double median_ms = 0;
  double min_ms = 0;
  double cpu_ms_per_step_per_worker = 0;
};

// Forward, backward and optimizer of `load` (its workers must be 1) for about
// `seconds`, after a few steps that do not count. Gradients are updated with
// chunk by chunk, as soon as backward has finished them. On a GPU: forward and
// backward alone, since optimizers run on hosts.
absl::StatusOr<StepTiming> TimeSingleStep(BenchLoad load, double seconds);

// `load.workers` processes like that at once; the timing is the first one's.
// `signals` as in RunBenchJob, here and below.
absl::StatusOr<StepTiming> TimeIndependentSteps(const BenchLoad& load,
                                                double seconds,
                                                SignalQueue* signals);

// One server and `load.workers` workers on loopback, for `load.steps` steps;
// the timing is that between the completions of steps at the coordinator.
absl::StatusOr<StepTiming> TimeExchangeSteps(const BenchLoad& load,
                                             SignalQueue* signals);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_BENCH_BENCH_STEP_H_
