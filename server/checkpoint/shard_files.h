// The files of a checkpoint: how a server writes its part, and how any number
// of servers read theirs again.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_SHARD_FILES_H_
#define TRIBUTARY_SERVER_CHECKPOINT_SHARD_FILES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/os/file_system.h"
#include "common/parameters/parameter_table.h"
#include "common/parameters/snapshot.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// Which files a server writes, and what they hold. The layout must outlive it.
struct ShardFiles {
  const ArenaLayout* layout = nullptr;
  int shard = 0;
  int servers = 1;
  // Optimizer::slot_names.
  std::vector<std::string> state;
};

// Writes model and, if there is state, optimizer file into `folder`, and syncs
// them and the folder. Returns what the manifest says of them. The snapshot has
// all chunks of the shard. Makes no copy of the tensors. Blocks for as long as
// the disk takes.
absl::StatusOr<std::vector<CheckpointFile>> WriteShardFiles(
    const ShardFiles& files, const Snapshot& snapshot,
    const std::string& folder, FileSystem* file_system);

// Reads what `shard` of `servers`, any numbers, need of the checkpoint in
// `folder`: `snapshot` has the shard's chunks with their buffers, values and
// one for each of the manifest's `state`; gaps between tensors become zero.
// Every byte that is used has the digest that the manifest says. DataLoss,
// naming file and byte range, if one has not.
absl::Status ReadShard(const std::string& folder,
                       const CheckpointManifest& manifest,
                       const ArenaLayout& layout, Snapshot* snapshot);

// Reads all of a checkpoint. OK if it is whole and every byte is as it was
// written; otherwise DataLoss names the first file and byte range that is not.
absl::Status VerifyCheckpoint(const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_SHARD_FILES_H_
