// The servers and workers of a Job.
#ifndef TRIBUTARY_LIBRARY_JOB_RUN_H_
#define TRIBUTARY_LIBRARY_JOB_RUN_H_

#include <string>

#include "absl/status/status.h"
#include "common/base/shutdown.h"
#include "deploy/launch/in_process/in_process_network.h"
#include "deploy/launch/job/job_runner.h"
#include "library/job_metrics.h"
#include "library/job_plan.h"
#include "server/process/server_options.h"
#include "tributary/job.h"
#include "worker/process/worker_process.h"
#include "worker/training/training_sources.h"

namespace tributary {

// Runs each server (RunServer) and each worker (RunWorker, or JobWorker::Run
// for Job::Options::worker) on a thread of its own. The status of server 0
// determines how the job ends. When all workers have failed, the servers are
// stopped, because server 0 would wait for further workers.
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
  JobRunnerOptions RunnerOptions();
  ServerOptions OptionsOfServer(int shard);
  WorkerOptions OptionsOfWorker(int rank);

  const JobPlan& plan_;
  const Job::Options& options_;
  const std::string& folder_;
  const TrainingSources sources_;
  JobMetrics metrics_;
  InProcessNetwork network_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_RUN_H_
