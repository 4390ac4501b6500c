// Times one training step: in this process, in several independent processes,
// and in several processes that exchange gradients.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_STEP_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_STEP_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/tools/bench/bench_jobs.h"
#include "worker/training/training_sources.h"

namespace tributary {

struct StepTiming {
  int64_t parameters = 0;
  int64_t batch_per_worker = 0;
  int64_t steps = 0;
  // Median and minimum time of a step, in milliseconds.
  double median_ms = 0;
  double min_ms = 0;
  // CPU time, in milliseconds, that one worker uses for a step.
  // TimeExchangeSteps also counts the CPU time of the worker's start and end.
  double cpu_ms_per_step_per_worker = 0;
};

// Times the steps (forward, backward, optimizer) of one worker of `load` for
// about `seconds`, after a few warm-up steps. Ignores `load.workers`. With one
// compute thread on the CPU, updates each chunk (a slice of the parameters) as
// soon as backward has finished its gradient. Otherwise updates all chunks
// after backward; a GPU updates them in its own memory. `sources` creates the
// model. Returns the errors of BenchJob, TrainingSetup::Create and
// CreateGpuOptimizer, and the errors of the device.
absl::StatusOr<StepTiming> TimeSingleStep(BenchLoad load, double seconds,
                                          const TrainingSources& sources);

// Runs TimeSingleStep in `load.workers` processes concurrently and returns the
// timing of the first process. Returns the errors of RunBenchPrograms.
// `signals` must have been created with `with_children` set.
absl::StatusOr<StepTiming> TimeIndependentSteps(const BenchLoad& load,
                                                double seconds,
                                                SignalQueue* signals);

// Runs one server and `load.workers` workers on loopback for `load.steps`
// steps. The time of a step is the interval between the completions of two
// consecutive steps at the coordinator. Returns the errors of BenchJob and
// RunBenchJob. `signals` must have been created with `with_children` set. If
// `in_process` is true, they are threads of this process.
absl::StatusOr<StepTiming> TimeExchangeSteps(const BenchLoad& load,
                                             SignalQueue* signals,
                                             bool in_process = false);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_STEP_H_
