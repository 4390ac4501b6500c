// The process of a server other than shard 0.
#ifndef TRIBUTARY_SERVER_PROCESS_SHARD_PROCESS_H_
#define TRIBUTARY_SERVER_PROCESS_SHARD_PROCESS_H_

#include "absl/status/status.h"
#include "common/base/shutdown.h"
#include "server/process/server_options.h"

namespace tributary {

// Implements RunServer for shards other than 0.
absl::Status RunShard(const ServerOptions& options, Shutdown* shutdown);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_SHARD_PROCESS_H_
