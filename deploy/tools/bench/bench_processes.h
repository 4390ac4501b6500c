// Instances of this program that a benchmark runs.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_PROCESSES_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_PROCESSES_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/os/temporary_directory.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/supervisor.h"
#include "nlohmann/json.hpp"

namespace tributary {

// Starts processes that run concurrently, numbered from 0. The destructor ends
// them. Not thread-safe.
class BenchProcesses {
 public:
  // `signals` must have been created with `with_children` set, and must outlive
  // this object. Returns the errors of TemporaryDirectory::Create.
  static absl::StatusOr<std::unique_ptr<BenchProcesses>> Create(
      SignalQueue* signals);

  // Starts this program with the arguments. Returns the errors of
  // Supervisor::Start.
  absl::Status Start(const std::vector<std::string>& arguments);
  // Blocks until `done` returns true; calls it after every exit and every
  // `interval`. Returns Cancelled if a signal arrived, Aborted if a process
  // failed, and DeadlineExceeded after `timeout`.
  absl::Status Await(const std::function<bool()>& done, absl::Duration interval,
                     absl::Duration timeout);
  // Returns the JSON object that the process has printed. Returns Internal if
  // it has printed none.
  absl::StatusOr<nlohmann::json> Printed(int process) const;

  // A unique name on this machine.
  const std::string& folder() const { return folder_->path(); }
  Supervisor& supervisor() { return supervisor_; }

 private:
  explicit BenchProcesses(SignalQueue* signals) : signals_(signals) {}

  SignalQueue* const signals_;
  std::unique_ptr<TemporaryDirectory> folder_;
  Supervisor supervisor_;
};

// Runs this program once per list of arguments, concurrently, and returns the
// JSON object that each process printed. Returns the errors of BenchProcesses.
absl::StatusOr<std::vector<nlohmann::json>> RunBenchPrograms(
    const std::vector<std::vector<std::string>>& arguments,
    SignalQueue* signals);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_PROCESSES_H_
