// Runs a job with servers and workers as processes, restarts failed processes
// as a cluster manager does, and checks the results.
#ifndef TRIBUTARY_TESTS_FAULTS_PROCESS_CLUSTER_H_
#define TRIBUTARY_TESTS_FAULTS_PROCESS_CLUSTER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/launch/job/supervisor.h"
#include "tests/faults/sample_ledger.h"

namespace tributary {

// A cluster of processes that runs one job. Not thread-safe.
class ProcessCluster {
 public:
  struct Options {
    std::string program;  // The tributary program with failpoints.
    std::string job;      // Path of the job file.
    std::string folder;   // Folder for all files; must exist and be empty.
    int servers = 2;
    int workers = 2;
    int worker_threads = 1;
    // Changes of the job in the form path=value.
    std::vector<std::string> sets;
    // Additional environment variables ("NAME=value") and arguments of
    // processes, by name of the process, such as "server-1" or "worker-0".
    std::map<std::string, std::vector<std::string>> environment;
    std::map<std::string, std::vector<std::string>> arguments;
    // Returns the address that a process uses for server 0, which listens on
    // `address` ("host:port"). If null, all processes use `address`.
    std::function<std::string(const std::string& name,
                              const std::string& address)>
        route;
    // The values of TRIBUTARY_FAILPOINTS for the first and for the second start
    // of a process, by name of the process.
    std::map<std::string, std::string> failpoints;
    std::map<std::string, std::string> failpoints_again;
    // True if a failed job is not restarted.
    bool ends_with_job = false;
    // Time after which the run fails.
    absl::Duration timeout = absl::Seconds(60);
  };
  explicit ProcessCluster(Options options);

  // Runs the job to its end. Returns OK or the first error. Calls `look`
  // several times per step.
  absl::Status Run(const std::function<void(ProcessCluster*)>& look = nullptr);

  // Sends a signal to the process that was started last under this name.
  void Signal(const std::string& name, int signal);
  std::vector<std::string> names() const;
  // Returns the newest step in metrics.jsonl, or 0 if there is none.
  int64_t step() const;
  int restarts() const { return restarts_; }
  // Returns the number of processes that any signal has ended.
  int killed() const { return killed_; }
  // Returns the time from the first failed process or action of a failpoint to
  // the completion of a step that was not completed before. Returns nullopt if
  // either has not happened.
  absl::optional<absl::Duration> recovery() const { return recovery_; }

  // Returns the digest of the final weights in summary.json. Call after Run.
  std::string weights_sha256() const;
  // Checks that each update was applied exactly once, with all samples of the
  // batch; and, if they are `ordered`, in their order. Returns OK, or an error
  // that describes the first violation. Call after Run.
  absl::Status CheckLedger(int64_t steps, bool ordered = true) const;
  // Checks that each sample of each epoch was used exactly once; see
  // CheckSampleLedger. Call after Run.
  absl::Status CheckSamples(const SampleLedgerJob& job) const;
  // Returns the number of steps that were applied to all chunks, published, and
  // computed again in a later attempt. Call after Run.
  int64_t StepsAgain() const;
  // Returns how many times failpoints acted.
  int actions() const;

 private:
  // The steps that were applied to each chunk in each attempt, and the sample
  // counts of the gradients of each step.
  struct Ledger {
    std::map<int, std::map<int64_t, std::vector<int64_t>>> applied;
    std::map<int64_t, std::set<int64_t>> sample_counts;
  };
  absl::StatusOr<Ledger> ReadLedger() const;
  std::string Path(const std::string& name) const;
  absl::Status Start(const std::string& name);
  ProcessSpec Spec(const std::string& name);
  void Watch();

  const Options options_;
  Supervisor supervisor_;
  std::map<std::string, int> newest_;  // Newest process by name.
  std::map<std::string, int> starts_;
  std::vector<std::string> name_of_;  // Name by process.
  std::string coordinator_;
  int restarts_ = 0;
  int killed_ = 0;
  absl::Time fault_ = absl::InfiniteFuture();
  int64_t step_at_fault_ = 0;
  absl::optional<absl::Duration> recovery_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_FAULTS_PROCESS_CLUSTER_H_
