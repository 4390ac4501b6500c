// Where the model of a finished job lies: a checkpoint of one server, without
// optimizer state, which says that nothing is left to compute.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_FINAL_FOLDER_H_
#define TRIBUTARY_SERVER_CHECKPOINT_FINAL_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/os/file_system.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// DIR/final, of a run's folder.
std::string FinalFolder(absl::string_view run);

// The model in it.
inline constexpr char kFinalModelName[] = "model.safetensors";

// Describes the model that lies in `folder` in a manifest beside it, which
// survives a power cut when this returns OK. `manifest` is that of the job's
// last version; files, servers and optimizer state in it are replaced. Reads
// the model; blocks for as long as the disk takes.
absl::Status WriteFinalManifest(const std::string& folder,
                                CheckpointManifest manifest,
                                FileSystem* files = FileSystem::Posix());

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_FINAL_FOLDER_H_
