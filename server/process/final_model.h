// Collects the model of a finished job from its servers.
#ifndef TRIBUTARY_SERVER_PROCESS_FINAL_MODEL_H_
#define TRIBUTARY_SERVER_PROCESS_FINAL_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/parameters/arena_layout.h"
#include "common/update/update_engine.h"
#include "proto/checkpoint.pb.h"
#include "server/process/server_network.h"
#include "server/process/server_options.h"

namespace tributary {

// The places from which the final model can be read.
struct FinalModelSources {
  int64_t version = 0;
  // Folder of the checkpoint with the finished model, if the job was finished
  // before this attempt began; otherwise empty.
  std::string complete_checkpoint;
  // The engine of the caller's own shard. Null in an all-reduce, and if the job
  // was finished before this attempt began.
  UpdateEngine* engine = nullptr;
  // host:port of each server, indexed by shard. The first element stands for
  // the caller, and is not used.
  std::vector<std::string> addresses;
  // Reads the shards of the other servers. Not used if `engine` is null.
  ServerNetwork* network = nullptr;
  // Reads the in-memory replica of `shard` from the server `holder` into the
  // snapshot, as Replicator::ReadCopies does. Set in jobs with
  // recovery.journal and in an all-reduce; otherwise null.
  std::function<absl::Status(int shard, int holder, Snapshot*)> copies;
};

// Reads the final model into `arena`, a buffer with room for all parameters in
// `layout` (layout.arena_elements() floats). Reads each server's shard or, if a
// server is lost, the replica of its shard from a different server. In an
// all-reduce, reads the state that the workers have saved on this server. If
// the job was finished before this attempt, or if any of these cannot be read,
// reads the checkpoint of the final version. Logs a message if it uses a
// replica or the checkpoint. Returns an error if the checkpoint cannot be read
// either. Blocks for a bounded time, up to some minutes per server.
absl::Status ReadFinalModel(const FinalModelSources& sources,
                            const ServerOptions& options,
                            const ArenaLayout& layout, const Buffer& arena);

// Reads the moving average of the final weights into `arena`, in a job with
// optimizer.average_decay. Reads it from the job's last checkpoint, because the
// average is optimizer state, and ServerNetwork::ReadWeights reads no optimizer
// state from other servers. Returns NotFound if that checkpoint is not of the
// final version, and the errors of ReadShard. Blocks on the disk.
absl::Status ReadFinalAverage(const FinalModelSources& sources,
                              const ServerOptions& options,
                              const ArenaLayout& layout, const Buffer& arena);

// Gives the final folder the rows of the final version, which it reads from the
// job's last checkpoint; see WriteFinalTables in
// server/checkpoint/final_tables.h. Returns nothing in a job without tables.
// Returns NotFound if that checkpoint is not of the final version.
absl::StatusOr<std::vector<CheckpointFile>> WriteFinalRows(
    const FinalModelSources& sources, const ServerOptions& options);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_FINAL_MODEL_H_
