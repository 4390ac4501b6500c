// The servers and workers of a job as threads of one process.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_MEMBERS_H_
#define TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_MEMBERS_H_

#include <functional>

#include "absl/status/status.h"
#include "common/base/shutdown.h"
#include "common/os/logger.h"
#include "deploy/launch/in_process/in_process_network.h"
#include "deploy/launch/job/process_control.h"
#include "server/process/server_options.h"
#include "worker/process/worker_process.h"

namespace tributary {

// Return how ProcessThreads runs a server or worker that reaches the others
// through `network`, which must outlive the thread. The options need no
// addresses, no credentials and no log: the thread creates its log with `log`,
// to which the functions add where warnings go and, as its last line, how the
// member has ended.
ProcessSpec InProcessServer(InProcessNetwork* network, ServerOptions options,
                            LogOptions log);
// `run` is what the worker does, by default RunWorker.
using WorkerBody =
    std::function<absl::Status(const WorkerOptions& options, Shutdown*)>;
ProcessSpec InProcessWorker(InProcessNetwork* network, WorkerOptions options,
                            LogOptions log, WorkerBody run = &RunWorker);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_MEMBERS_H_
