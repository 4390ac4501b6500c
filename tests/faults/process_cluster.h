// Servers and workers as processes of their own, which are started again when
// they die, as a cluster's manager does; and what they left behind.
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
#include "deploy/launcher/supervisor.h"

namespace tributary {

// For one thread.
class ProcessCluster {
 public:
  struct Options {
    std::string program;  // tributary, with failpoints.
    std::string job;      // A job file.
    std::string folder;   // For everything; must exist and be empty.
    int servers = 2;
    int workers = 2;
    int worker_threads = 1;
    std::vector<std::string> sets;  // Of the job.
    // More of its environment, "NAME=value", and arguments by process.
    std::map<std::string, std::vector<std::string>> environment;
    std::map<std::string, std::vector<std::string>> arguments;
    // What a process is told of server 0's address, "host:port"; null: that.
    std::function<std::string(const std::string& name,
                              const std::string& address)>
        route;
    // By process ("server-1", "worker-0"): TRIBUTARY_FAILPOINTS of its first
    // start, and of its second.
    std::map<std::string, std::string> failpoints;
    std::map<std::string, std::string> failpoints_again;
    // A job that has failed is not tried again.
    bool ends_with_job = false;
    // After which the run has failed.
    absl::Duration timeout = absl::Seconds(60);
  };
  explicit ProcessCluster(Options options);

  // Runs the job to its end: OK, or what went wrong. `look` is called several
  // times a step.
  absl::Status Run(const std::function<void(ProcessCluster*)>& look = nullptr);

  // Sends a signal to the newest process of that name.
  void Signal(const std::string& name, int signal);
  std::vector<std::string> names() const;
  // Newest step in metrics.jsonl; 0: none.
  int64_t step() const;
  int restarts() const { return restarts_; }
  // How many processes were ended by a signal, whoever sent it.
  int killed() const { return killed_; }
  // From the first death or action of a failpoint until a step was done that
  // had not been before.
  absl::optional<absl::Duration> recovery() const { return recovery_; }

  // After Run: of summary.json.
  std::string weights_sha256() const;
  // After Run: whether each update was made exactly once, with all samples of
  // the batch; what is wrong if not.
  absl::Status CheckLedger(int64_t steps) const;
  // After Run: steps that had been applied to all chunks and given out, and
  // were computed again in a later attempt.
  int64_t StepsAgain() const;
  // How often failpoints have acted.
  int actions() const;

 private:
  // Of each chunk, by attempt, the steps applied, and by step the numbers of
  // samples that went in.
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
  std::map<std::string, int> newest_;  // Process by name.
  std::map<std::string, int> starts_;
  std::vector<std::string> name_of_;  // By process.
  std::string coordinator_;
  int restarts_ = 0;
  int killed_ = 0;
  absl::Time fault_ = absl::InfiniteFuture();
  int64_t step_at_fault_ = 0;
  absl::optional<absl::Duration> recovery_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_FAULTS_PROCESS_CLUSTER_H_
