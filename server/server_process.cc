#include "server/server_process.h"

#include "server/coordinator_process.h"
#include "server/shard_process.h"

namespace tributary {

absl::Status RunServer(const ServerOptions& options, Shutdown* shutdown) {
  return options.shard == 0 ? RunCoordinator(options, shutdown)
                            : RunShard(options, shutdown);
}

}  // namespace tributary
