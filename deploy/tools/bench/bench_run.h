// Runs processes for a benchmark: a whole job on this machine, or single
// instances of this program.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_RUN_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_RUN_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/flags/signals.h"
#include "deploy/launch/job/supervisor.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"

namespace tributary {

// Returns the CPU time (user and system) of a process so far, in seconds;
// nullopt if there is no such process.
absl::optional<double> CpuSecondsOf(pid_t pid);

struct BenchProcesses {
  int servers = 1;
  int workers = 1;
  // Number of threads of each server. 0 divides the cores of this machine
  // equally among the servers.
  int server_threads = 0;
  int worker_threads = 1;
  std::string server_device = "cpu";  // Value of --device for servers.
  std::string worker_device = "cpu";  // Value of --device for workers.
};

struct BenchRun {
  // The contents of summary.json, which server 0 writes at the end of a run.
  nlohmann::json summary;
  // CPU seconds per step of all servers together and of all workers together,
  // excluding the start and the end of the job. Absent if the run was too short
  // to measure it.
  absl::optional<double> server_cpu_per_step;
  absl::optional<double> worker_cpu_per_step;
};

// Runs `job` on this machine, and blocks until the job is done. Returns
// Cancelled if a signal ended the job. Other errors state which process or file
// failed, and the reason. `signals` must have been created with `with_children`
// set.
absl::StatusOr<BenchRun> RunBenchJob(const JobSpec& job,
                                     const BenchProcesses& processes,
                                     SignalQueue* signals);

// Runs this program once per list of arguments, concurrently, and returns the
// JSON object that each process printed. `signals` must have been created with
// `with_children` set. Returns Cancelled if a signal arrived, Aborted if a
// process failed, and the errors of TemporaryDirectory::Create,
// Supervisor::Start and ReadPrintedJson.
absl::StatusOr<std::vector<nlohmann::json>> RunBenchPrograms(
    const std::vector<std::vector<std::string>>& arguments,
    SignalQueue* signals);

// Returns the JSON object that a process printed to its log. Returns Internal
// if the log contains none, and an error with the path if the log cannot be
// read. Benchmarks that start their processes themselves use this function,
// CheckExit and StoppedBy.
absl::StatusOr<nlohmann::json> ReadPrintedJson(const std::string& log_path);
// Returns OK if the process exited with code 0, and otherwise Aborted, with the
// reason. `exit` must come from `supervisor`.
absl::Status CheckExit(const Supervisor& supervisor, const ProcessExit& exit);
// Returns a Cancelled error whose message names `signal`.
absl::Status StoppedBy(int signal);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_RUN_H_
