// The rows of tables in the folder of a finished job's model.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_FINAL_TABLES_H_
#define TRIBUTARY_SERVER_CHECKPOINT_FINAL_TABLES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/file_system.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// Gives FinalFolder `to` the rows of the checkpoint in `from`, as one server
// would have written them, in place of those that it has. Returns the entries
// for its manifest. If one server has written the checkpoint, the files are
// hard links, where the file system has them. Otherwise, merges the files,
// bucket by bucket. Returns DataLoss, naming the file, if the checkpoint is
// damaged, and the system's error if a file cannot be written. Blocks on the
// disk.
absl::StatusOr<std::vector<CheckpointFile>> WriteFinalTables(
    const std::string& from, const CheckpointManifest& manifest,
    const std::string& to, FileSystem* files);

// Returns the folder with the rows of `path`: a checkpoint itself, or of a
// run's folder, the final folder or, if that has no rows, the newest
// checkpoint. Returns NotFound if there is none.
absl::StatusOr<std::string> FindSavedTables(const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_FINAL_TABLES_H_
