// Runs other processes for a benchmark: a whole job on this machine, or parts
// of this program by themselves.
#ifndef TRIBUTARY_DEPLOY_BENCH_BENCH_RUN_H_
#define TRIBUTARY_DEPLOY_BENCH_BENCH_RUN_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/flags/signals.h"
#include "deploy/launcher/supervisor.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"

namespace tributary {

// A folder that goes with this object.
class TemporaryDirectory {
 public:
  // In TMPDIR, else in /tmp.
  static absl::StatusOr<std::unique_ptr<TemporaryDirectory>> Create();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path);
  const std::string path_;
};

// User and system time of a process so far, in seconds; nullopt if there is no
// such process.
absl::optional<double> CpuSecondsOf(pid_t pid);

struct BenchProcesses {
  int servers = 1;
  int workers = 1;
  // Of each. 0: an equal share of this machine's cores.
  int server_threads = 0;
  int worker_threads = 1;
  std::string server_device = "cpu";  // See AddServerDeviceFlag.
  std::string worker_device = "cpu";  // See AddDeviceFlag.
};

struct BenchRun {
  // What summary.json says.
  nlohmann::json summary;
  // CPU seconds of all servers and of all workers in a step, while steps were
  // running: without what starts and ends the job. Absent if that was too short
  // to tell.
  absl::optional<double> server_cpu_per_step;
  absl::optional<double> worker_cpu_per_step;
};

// Blocks until the job is done. Cancelled if a signal ended it; other errors
// say which process failed, and why. `signals` must have been made
// with_children.
absl::StatusOr<BenchRun> RunBenchJob(const JobSpec& job,
                                     const BenchProcesses& processes,
                                     SignalQueue* signals);

// Runs this program once for each of the lists of arguments, all at the same
// time, and returns the JSON object that each of them printed. Errors as above.
absl::StatusOr<std::vector<nlohmann::json>> RunBenchPrograms(
    const std::vector<std::vector<std::string>>& arguments,
    SignalQueue* signals);

// For benchmarks that start processes in other ways.
// What one printed; Internal if that is no JSON object.
absl::StatusOr<nlohmann::json> ReadPrintedJson(const std::string& log_path);
// An error unless it succeeded.
absl::Status CheckExit(const Supervisor& supervisor, const ProcessExit& exit);
// Cancelled.
absl::Status StoppedBy(int signal);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_BENCH_BENCH_RUN_H_
