#include "server/process/server_process.h"

#include <optional>

#include "server/process/coordinator_process.h"
#include "server/process/finished_run.h"
#include "server/process/shard_process.h"

namespace tributary {

absl::Status RunServer(const ServerOptions& options, Shutdown* shutdown) {
  if (options.shard != 0) return RunShard(options, shutdown);
  if (options.resume) {
    const std::optional<ResumePoint> finished =
        FindFinishedRun(options.job, options.output_directory);
    if (finished.has_value()) {
      return ServeFinishedRun(options, *finished, shutdown);
    }
  }
  return RunCoordinator(options, shutdown);
}

}  // namespace tributary
