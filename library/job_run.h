// The servers and workers of a Job.
#ifndef TRIBUTARY_LIBRARY_JOB_RUN_H_
#define TRIBUTARY_LIBRARY_JOB_RUN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/shutdown.h"
#include "common/base/thread.h"
#include "common/os/logger.h"
#include "library/job_metrics.h"
#include "library/job_plan.h"
#include "server/process/server_options.h"
#include "tributary/job.h"
#include "worker/process/worker_process.h"
#include "worker/training/training_sources.h"

namespace tributary {

// Runs each server (RunServer) and each worker (RunWorker, or JobWorker::Run
// for Job::Options::worker) on a thread of its own. The status of server 0
// determines how the job ends. When all workers have failed, server 0 is
// stopped, because it would wait for further workers.
class JobRun {
 public:
  // All arguments must outlive this object. `folder` is the path of the output
  // folder.
  JobRun(const JobPlan& plan, const Job::Options& options,
         const std::string& folder);

  // Blocks until all threads have ended. Stops the job when `stop` is
  // requested. Returns the errors that Job::Run describes. Call once.
  absl::Status Run(Shutdown* stop);

 private:
  // A server or a worker.
  struct Process {
    Shutdown shutdown;
    // The status with which this server or worker has ended; nullopt while it
    // runs. Guarded by mu_.
    std::optional<absl::Status> end;
    Thread thread;
  };

  // Starts server 0, and waits until it listens or has ended. If it listens,
  // starts the other servers and the workers.
  void StartAll();
  void StartServer(int shard);
  void StartWorker(int rank);
  ServerOptions OptionsOfServer(int shard);
  WorkerOptions OptionsOfWorker(int rank);
  // Runs `body` on the thread of `process`.
  void Start(Process* process, std::function<absl::Status()> body);
  // Called by the thread of `process` at its end.
  void End(Process* process, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until server 0 has ended. After success, gives the other processes
  // some seconds to end. Then stops all processes and joins their threads.
  void AwaitAll() ABSL_LOCKS_EXCLUDED(mu_);
  bool AllEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // If all workers have ended with errors, returns the error of the worker with
  // rank 0. Otherwise returns OK.
  absl::Status WorkersFailure() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const JobPlan& plan_;
  const Job::Options& options_;
  const std::string& folder_;
  const TrainingSources sources_;
  JobMetrics metrics_;
  std::string token_;  // The token of this job.
  std::vector<std::unique_ptr<Logger>> logs_;

  absl::Mutex mu_;
  std::string coordinator_ ABSL_GUARDED_BY(mu_);
  absl::Status workers_failure_ ABSL_GUARDED_BY(mu_);
  // The vectors are constant after construction.
  std::vector<std::unique_ptr<Process>> servers_;
  std::vector<std::unique_ptr<Process>> workers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_RUN_H_
