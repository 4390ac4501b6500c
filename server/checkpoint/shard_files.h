// The tensor files of a checkpoint. Each server writes the files of its shard;
// any number of servers can read them.
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
#include "common/parameters/arena_layout.h"
#include "common/parameters/snapshot.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// Describes which files a server writes and what they contain. `layout` must
// outlive this object.
struct ShardFiles {
  const ArenaLayout* layout = nullptr;
  int shard = 0;
  int servers = 1;
  // The optimizer's slot names (see Optimizer::slot_names).
  std::vector<std::string> state;
};

// Writes the model file and, if there is optimizer state, the optimizer file
// into `folder`, and syncs the files and the folder. `snapshot` must hold all
// chunks of the shard. Returns the entries that describe these files in the
// manifest. Does not copy the tensors. Blocks on the disk. Returns the system's
// error, with the path, if a file cannot be written.
absl::StatusOr<std::vector<CheckpointFile>> WriteShardFiles(
    const ShardFiles& files, const Snapshot& snapshot,
    const std::string& folder, FileSystem* file_system);

// Reads the chunks that `*snapshot` lists from the checkpoint in `folder`, and
// sets the snapshot's version. Any number of servers may have written the
// checkpoint. The caller allocates the buffers of each chunk: its values, and
// one slot for each entry of the manifest's `state`. Sets the gaps between
// tensors in a chunk to zero. Verifies every byte that it uses with the digests
// in the manifest. Returns DataLoss, naming the file and the byte range, if a
// file is missing or a digest differs from the manifest, FailedPrecondition if
// the checkpoint is of a different model or optimizer, and the system's error
// if a file cannot be opened.
absl::Status ReadShard(const std::string& folder,
                       const CheckpointManifest& manifest,
                       const ArenaLayout& layout, Snapshot* snapshot);

// Reads the whole checkpoint in `folder`. Returns OK if it is complete and
// every byte matches its digest; otherwise returns DataLoss, which names the
// first missing or damaged file and the byte range, or the system's error if a
// file cannot be opened.
absl::Status VerifyCheckpoint(const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_SHARD_FILES_H_
