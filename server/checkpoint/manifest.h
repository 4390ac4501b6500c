// manifest.json, the description of a checkpoint folder. proto/checkpoint.proto
// defines its contents.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_MANIFEST_H_
#define TRIBUTARY_SERVER_CHECKPOINT_MANIFEST_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/os/file_system.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

inline constexpr char kManifestName[] = "manifest.json";

// Returns the entry of a file in the manifest of the checkpoint in `folder`.
// Returns DataLoss if there is none.
absl::StatusOr<const CheckpointFile*> FindFile(
    const std::string& folder, const CheckpointManifest& manifest,
    const std::string& name);

// Returns the name of a file with rows of tables that server `shard` writes if
// there are `servers` servers: part 0 has rows, and each further part has what
// has changed since the part before.
std::string TableFileName(int shard, int servers, int part);
// Returns the entries of a server's files with rows, in the order of the parts.
// They point into `manifest`.
std::vector<const CheckpointFile*> TableFilesOf(
    int shard, const CheckpointManifest& manifest);

// Names of the files that one server writes into a checkpoint.
struct ShardFileNames {
  std::string model;
  std::string optimizer;  // Empty if there is no optimizer state.
};
// Returns the names of the files that server `shard` writes if there are
// `servers` servers. `has_state` is true if the optimizer has state.
ShardFileNames ShardFileNamesOf(int shard, int servers, bool has_state);

// Returns the text of manifest.json. Returns Internal if protobuf cannot print
// the manifest.
absl::StatusOr<std::string> PrintManifest(const CheckpointManifest& manifest);

// Parses the text that PrintManifest returns. The text is untrusted. Returns
// DataLoss, naming the problem, if a byte was changed, a number is out of
// range, or the listed files are not those that servers write.
absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view text);

// Reads the manifest of a checkpoint folder. Errors name the file. Returns
// NotFound if the folder has no manifest (it is not a checkpoint, or it is
// damaged), DataLoss as ParseManifest does, and the system's error if the file
// cannot be read.
absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& folder);

// Writes the manifest into `folder`, atomically (see WriteFileAtomically).
// Returns Internal if ParseManifest would refuse the text, and the errors of
// WriteFileAtomically.
absl::Status WriteManifest(const std::string& folder,
                           const CheckpointManifest& manifest,
                           FileSystem* files);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_MANIFEST_H_
