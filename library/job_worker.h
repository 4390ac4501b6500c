// A worker of a Job whose gradients the program computes.
#ifndef TRIBUTARY_LIBRARY_JOB_WORKER_H_
#define TRIBUTARY_LIBRARY_JOB_WORKER_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/base/shutdown.h"
#include "common/os/logger.h"
#include "tributary/worker.h"
#include "worker/process/worker_process.h"

namespace tributary {

// Runs the worker function of a program, Job::Options::worker.
class JobWorker {
 public:
  // Joins the job, calls `compute` with the worker, and blocks until `compute`
  // has returned. Returns OK if the job is done. Otherwise returns the error of
  // `compute`, which is Internal for an exception; the error with which the
  // worker has ended, such as Cancelled after `shutdown` was requested; or
  // FailedPrecondition if `compute` returns OK before the job has ended. The
  // `log` of `process` is not used.
  static absl::Status Run(const std::function<absl::Status(Worker*)>& compute,
                          const WorkerOptions& process,
                          std::unique_ptr<Logger> log, Shutdown* shutdown);
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_WORKER_H_
