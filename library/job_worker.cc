#include "library/job_worker.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "library/worker_session.h"

namespace tributary {
namespace {

// The program's function may throw. Its thread has no other handler.
absl::Status Call(const std::function<absl::Status(Worker*)>& compute,
                  Worker* worker) {
  try {
    return compute(worker);
  } catch (const std::exception& exception) {
    return absl::InternalError(
        absl::StrCat("the worker function threw: ", exception.what()));
  } catch (...) {
    return absl::InternalError(
        "the worker function threw something that is not a std::exception");
  }
}

}  // namespace

absl::Status JobWorker::Run(const std::function<absl::Status(Worker*)>& compute,
                            const WorkerOptions& process,
                            std::unique_ptr<Logger> log, Shutdown* shutdown) {
  Worker worker(std::make_unique<WorkerSession>(process, std::move(log)));
  WorkerSession* const session = worker.session_.get();
  const Shutdown::Registration stop =
      shutdown->OnRequest([session] { session->Stop(); });
  const absl::Status joined = session->AwaitJob();
  // The other workers have finished the job.
  if (absl::IsOutOfRange(joined)) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(joined);
  TRIBUTARY_RETURN_IF_ERROR(Call(compute, &worker));
  if (session->ended()) return session->status();
  return absl::FailedPreconditionError(
      "the worker function returned before the job has ended; call NextStep "
      "until it returns null");
}

}  // namespace tributary
