// A worker of a Job whose gradients the program computes.
#ifndef TRIBUTARY_LIBRARY_JOB_WORKER_H_
#define TRIBUTARY_LIBRARY_JOB_WORKER_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/base/shutdown.h"
#include "common/os/log.h"
#include "tributary/worker.h"
#include "worker/process/worker_process.h"

namespace tributary {

// Runs a program's function with a Worker.
class JobWorker {
 public:
  // Joins the job and calls `compute` when the job is known. Blocks until it
  // has returned. Returns its error, also for an exception, Cancelled if
  // `shutdown` is requested before, and FailedPrecondition if it returns
  // although there is more work. `process` has no log.
  static absl::Status Run(const std::function<absl::Status(Worker*)>& compute,
                          const WorkerOptions& process,
                          std::unique_ptr<Logger> log, Shutdown* shutdown);
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_WORKER_H_
