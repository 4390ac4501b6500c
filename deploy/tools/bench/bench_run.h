// Runs a whole job on this machine for a benchmark.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_RUN_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_RUN_H_

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/job_launch.h"
#include "nlohmann/json.hpp"

namespace tributary {

// Returns the CPU time (user and system) of a process so far, in seconds;
// nullopt if there is no such process.
absl::optional<double> CpuSecondsOf(pid_t pid);

struct BenchRun {
  // The contents of summary.json, which server 0 writes at the end of a run.
  nlohmann::json summary;
  // CPU seconds per step of all servers together and of all workers together,
  // excluding the start and the end of the job. Absent if the run was too short
  // to measure it.
  absl::optional<double> server_cpu_per_step;
  absl::optional<double> worker_cpu_per_step;
};

// Runs the job on this machine, in a temporary folder and with a log of
// warnings only, and blocks until the job is done. Returns Cancelled if a
// signal ended the job. Other errors state which process or file failed, and
// the reason. `signals` must have been created with `with_children` set. If
// `in_process` is true, the servers and workers are threads of this process and
// compute on the CPU; the CPU times are then absent.
absl::StatusOr<BenchRun> RunBenchJob(JobLaunch launch, SignalQueue* signals,
                                     bool in_process = false);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_RUN_H_
