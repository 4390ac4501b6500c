// The servers of a conformance scenario, on threads of this process.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_CLUSTER_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_CLUSTER_H_

#include <cstdint>
#include <functional>
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
#include "common/os/logger.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/job/job_runner.h"
#include "deploy/launch/job/process_threads.h"
#include "proto/job.pb.h"
#include "server/process/server_options.h"
#include "server/process/server_process.h"
#include "worker/training/training_sources.h"

namespace tributary {

// Runs the servers of one job, with the code of `tributary server`. If a server
// fails, the others are stopped. Not thread-safe.
class Cluster {
 public:
  struct Options {
    JobSpec job;  // The resolved job.
    int servers = 1;
    int workers = 1;  // The job starts when this many workers have joined.
    absl::Duration lease = absl::Seconds(10);
    // True to resume the job from the latest checkpoint in `folder`.
    bool resume = false;
    std::string folder;  // Output folder of the job.
    std::string log;     // File that receives the servers' log.
    // The model that one worker, on a further thread, computes; null: there is
    // no such worker.
    const TrainingSources* built_in = nullptr;
    // Runs one server. Tests replace this function.
    std::function<absl::Status(const ServerOptions&, Shutdown*)> run =
        &RunServer;
  };

  // Starts the servers, and blocks until all of them listen or one has failed.
  explicit Cluster(const Options& options);
  // Stops the servers and waits until they have ended.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Returns the addresses of the servers, indexed by shard. The address of a
  // server that did not start to listen is empty.
  std::vector<std::string> addresses();
  // Returns OK if all servers have started to listen, and otherwise the error
  // of the first server that has failed.
  absl::Status start();
  // Asks server 0 to stop the job.
  void Stop();
  // Returns the status with which server 0 has ended, or nullopt while it runs.
  std::optional<absl::Status> end() {
    runner_.Advance();
    return threads_.status(0);
  }
  // Blocks until server 0 has ended, and then stops the other servers. Server 0
  // ends only after Stop, or when the job is done or has failed. Returns how
  // the job has ended.
  const absl::Status& Await();
  // Returns true if the job has ended. Never blocks.
  bool Ended() { return !runner_.Advance(); }
  Logger* log() const { return log_.get(); }
  // Returns the training losses that server 0 has recorded. The key of a loss
  // is the number of steps that were complete when it was recorded.
  std::map<int64_t, double> losses() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  JobRunnerOptions RunnerOptions(const Options& options);
  ServerOptions OptionsOfServer(const Options& options, int shard,
                                const std::string& coordinator);

  const int servers_;
  std::unique_ptr<Logger> log_;
  mutable absl::Mutex mu_;
  std::map<int64_t, double> losses_ ABSL_GUARDED_BY(mu_);
  ProcessThreads threads_;
  JobRunner runner_;
};

// The results of a completed training run.
struct RunResult {
  // Final weights, by name of the parameter.
  std::map<std::string, RunTensor> weights;
  std::string weights_sha256;
  std::optional<double> evaluation_loss;
  // Training losses by number of complete steps; see Cluster::losses. Set by
  // TrainBuiltIn only.
  std::map<int64_t, double> losses;
};

// Reads summary.json and the final model in the output folder of a completed
// job. Returns DataLoss if summary.json is not a JSON object, and otherwise the
// error of the file that cannot be read.
absl::StatusOr<RunResult> ReadRunResult(const std::string& folder);

// Trains the job with the servers that `options` describes and one worker of
// this program, which computes the model of `sources`. `options.workers` must
// be 1. Calls `tick` repeatedly until the job has ended; `tick` should block
// briefly. If `tick` returns an error, stops the job and returns that error.
// Otherwise returns the error with which the worker or a server has ended, if
// any, and the errors of ReadRunResult.
absl::StatusOr<RunResult> TrainBuiltIn(
    Cluster::Options options, const TrainingSources& sources,
    const std::function<absl::Status()>& tick);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_CLUSTER_H_
