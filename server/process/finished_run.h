// A run that is done and is started again.
#ifndef TRIBUTARY_SERVER_PROCESS_FINISHED_RUN_H_
#define TRIBUTARY_SERVER_PROCESS_FINISHED_RUN_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/base/shutdown.h"
#include "proto/job.pb.h"
#include "server/coordinator/beginning.h"
#include "server/process/server_options.h"

namespace tributary {

// Returns the final model of the run in `output_directory` if this run has done
// all steps of `job` (a valid result of ResolveJob) and its results are
// complete and intact. Returns nullopt otherwise: something is left to compute
// or to write. Reads the whole model, and changes no file.
std::optional<ResumePoint> FindFinishedRun(const JobSpec& job,
                                           const std::string& output_directory);

// Tells the servers and the workers of the job that it is done, so that they
// end, and changes no file of the run. A cluster starts them again when the
// same manifest is applied again. Returns OK when all servers and
// `options.expected_workers` workers were told, or when
// `options.start_timeout` has passed or `shutdown` is requested. Returns
// Unavailable if the address cannot be bound.
absl::Status ServeFinishedRun(const ServerOptions& options,
                              const ResumePoint& finished, Shutdown* shutdown);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_FINISHED_RUN_H_
