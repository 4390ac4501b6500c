// One server from start to end: listens, enlists (or coordinates), serves,
// writes what the job leaves behind.
#ifndef TRIBUTARY_SERVER_PROCESS_SERVER_PROCESS_H_
#define TRIBUTARY_SERVER_PROCESS_SERVER_PROCESS_H_

#include "absl/status/status.h"
#include "common/base/shutdown.h"
#include "server/process/server_options.h"

namespace tributary {

// Blocks until the job is done (OK), has failed (the reason, one line, ready to
// show) or `shutdown` was requested (Cancelled; shard 0 writes a checkpoint
// first). Survives the loss of other processes: shard 0 then begins another
// attempt of the job, from the newest checkpoint, and the others join it again.
// `shutdown` must outlive the call.
absl::Status RunServer(const ServerOptions& options, Shutdown* shutdown);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_SERVER_PROCESS_H_
