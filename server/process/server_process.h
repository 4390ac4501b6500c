// Runs one server process: listens, coordinates or enlists with the
// coordinator, serves, and writes the job's results.
#ifndef TRIBUTARY_SERVER_PROCESS_SERVER_PROCESS_H_
#define TRIBUTARY_SERVER_PROCESS_SERVER_PROCESS_H_

#include "absl/status/status.h"
#include "common/base/shutdown.h"
#include "server/process/server_options.h"

namespace tributary {

// Runs a server and blocks until the job ends. Returns OK when the job is done
// (see ServeFinishedRun for a job that was done before), Cancelled when
// `shutdown` was requested or shard 0 has stopped the job before its end, and
// otherwise the reason for the failure as one line for the user. Before shard 0
// stops during training, it takes a checkpoint if checkpoints are enabled.
// Continues after the loss of other processes: shard 0 begins a new attempt,
// from the newest checkpoint or in-memory replicas, and the other shards join
// it. `shutdown` must outlive the call.
absl::Status RunServer(const ServerOptions& options, Shutdown* shutdown);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_SERVER_PROCESS_H_
