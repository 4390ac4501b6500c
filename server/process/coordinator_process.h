// The server process of shard 0, which coordinates the job.
#ifndef TRIBUTARY_SERVER_PROCESS_COORDINATOR_PROCESS_H_
#define TRIBUTARY_SERVER_PROCESS_COORDINATOR_PROCESS_H_

#include "absl/status/status.h"
#include "common/base/shutdown.h"
#include "server/process/server_options.h"

namespace tributary {

// Implements RunServer for shard 0. Runs attempts (runs of the protocol) at the
// job, one after the other, until the job is done, has failed or is stopped.
absl::Status RunCoordinator(const ServerOptions& options, Shutdown* shutdown);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_COORDINATOR_PROCESS_H_
