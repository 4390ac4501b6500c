// The servers of a scenario, on threads of this process.
#ifndef TRIBUTARY_DEPLOY_CONFORMANCE_CLUSTER_H_
#define TRIBUTARY_DEPLOY_CONFORMANCE_CLUSTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/shutdown.h"
#include "common/base/thread.h"
#include "common/os/log.h"
#include "proto/job.pb.h"
#include "worker/training/training_sources.h"

namespace tributary {

// Runs the production servers of one job. Not thread-safe.
class Cluster {
 public:
  struct Options {
    JobSpec job;  // Resolved.
    int servers = 1;
    int workers = 1;  // The job starts when so many have joined.
    absl::Duration lease = absl::Seconds(10);
    bool resume = false;
    std::string folder;  // Of the results.
    std::string log;     // File that receives the servers' log.
  };

  // Starts the servers, and blocks until they listen or have ended.
  explicit Cluster(const Options& options);
  // Stops the servers.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // The servers' addresses, by shard. Empty if server 0 could not start.
  std::vector<std::string> addresses() const ABSL_LOCKS_EXCLUDED(mu_);
  // Asks server 0 to stop the job.
  void Stop() { servers_[0]->shutdown.Request(); }
  // Returns the status of server 0, or nullopt while it runs.
  std::optional<absl::Status> end() const ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until all servers have ended. Server 0 must have been stopped, or
  // have no work left.
  void Await();
  Logger* log() const { return log_.get(); }
  // The training loss of each step, by the number of steps done.
  std::map<int64_t, double> losses() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Server {
    Shutdown shutdown;
    Thread thread;
  };
  void Start(const Options& options, int shard);

  std::unique_ptr<Logger> log_;
  mutable absl::Mutex mu_;
  std::vector<std::string> addresses_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, double> losses_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Server>> servers_;
};

// What a run has computed.
struct RunResult {
  std::map<std::string, std::vector<float>> weights;  // By parameter.
  std::string weights_sha256;
  std::optional<double> evaluation_loss;
  std::map<int64_t, double> losses;  // See Cluster::losses.
};

// Reads the results in the folder of a job that is done.
absl::StatusOr<RunResult> ReadRunResult(const std::string& folder);

// Trains the job with one server and one built-in worker.
absl::StatusOr<RunResult> TrainBuiltIn(const Cluster::Options& options,
                                       const TrainingSources& sources);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_CONFORMANCE_CLUSTER_H_
