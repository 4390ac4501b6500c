// manifest.json: what a checkpoint folder says of itself. See
// proto/checkpoint.proto.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_MANIFEST_H_
#define TRIBUTARY_SERVER_CHECKPOINT_MANIFEST_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/os/file_system.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

inline constexpr char kManifestName[] = "manifest.json";

// The files of one of `servers` servers, in a checkpoint with or without
// optimizer state.
struct ShardFileNames {
  std::string model;
  std::string optimizer;  // Empty without state.
};
ShardFileNames ShardFileNamesOf(int shard, int servers, bool has_state);

// The file's text.
absl::StatusOr<std::string> PrintManifest(const CheckpointManifest& manifest);

// Reads what PrintManifest has made, from anywhere: nothing in it is trusted.
// DataLoss, saying what is wrong, if a byte was changed, a number makes no
// sense, or the files are not those that the servers write.
absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view text);

// Of a checkpoint folder. Errors name the file; NotFound if there is none: this
// is no checkpoint, or a damaged one.
absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& folder);

// Makes it the folder's, as WriteFileAtomically does. Internal for one that
// nobody could read.
absl::Status WriteManifest(const std::string& folder,
                           const CheckpointManifest& manifest,
                           FileSystem* files);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_MANIFEST_H_
