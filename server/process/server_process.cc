#include "server/process/server_process.h"

#include "server/process/coordinator_process.h"
#include "server/process/shard_process.h"

namespace tributary {

absl::Status RunServer(const ServerOptions& options, Shutdown* shutdown) {
  return options.shard == 0 ? RunCoordinator(options, shutdown)
                            : RunShard(options, shutdown);
}

}  // namespace tributary
