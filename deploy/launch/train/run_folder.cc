#include "deploy/launch/train/run_folder.h"

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/optimizer/averaged.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/snapshot.h"
#include "common/tensor_io/safetensors_file.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"

namespace tributary {
namespace {

// Writes the checkpoint's weights or, if `average` is true, their moving
// average, from the files of any number of servers, into one file.
absl::Status WriteModel(const std::string& checkpoint,
                        CheckpointManifest manifest, bool average,
                        const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(manifest.table()));
  // Of the optimizer's state, reads only the average minus the weights.
  manifest.clear_state();
  if (average) manifest.add_state(kAverageSlot);
  Snapshot model =
      MakeSnapshot(layout, layout.ChunksOf(/*shard=*/0, /*servers=*/1),
                   /*slots=*/average ? 1 : 0);
  TRIBUTARY_RETURN_IF_ERROR(ReadShard(checkpoint, manifest, layout, &model));
  std::vector<float> arena(layout.arena_elements());
  for (const Snapshot::Chunk& chunk : model.chunks) {
    float* const to = arena.data() + layout.ChunkBegin(chunk.number);
    std::memcpy(to, chunk.values.get(), chunk.elements * sizeof(float));
    if (!average) continue;
    for (int64_t i = 0; i < chunk.elements; ++i) {
      to[i] += chunk.slots[0].get()[i];
    }
  }
  return WriteSafetensors(path, FinalTensors(layout, arena.data()), {});
}

// Makes the checkpoint that of the run in `run`, whose rows are read from it.
absl::Status LinkCheckpoint(const std::string& checkpoint,
                            const std::string& run) {
  const std::string checkpoints = CheckpointsFolder(run);
  TRIBUTARY_RETURN_IF_ERROR(FileSystem::Posix()->MakeFolder(checkpoints));
  std::error_code error;
  const std::filesystem::path target =
      std::filesystem::absolute(checkpoint, error);
  if (!error) {
    std::filesystem::create_directory_symlink(
        target, absl::StrCat(checkpoints, "/step-00000000"), error);
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "cannot link ", checkpoint, " in ", checkpoints, ": ", error.message()));
}

}  // namespace

absl::StatusOr<RunFolder> RunFolder::Open(const std::string& path) {
  RunFolder folder;
  folder.path_ = path;
  if (PathExists(absl::StrCat(path, "/job.textproto")) ||
      !PathExists(absl::StrCat(path, "/", kManifestName))) {
    const std::string model = FinalFolder(path);
    if (PathExists(absl::StrCat(model, "/", kManifestName))) {
      TRIBUTARY_RETURN_IF_ERROR(VerifyCheckpoint(model));
    }
    return folder;
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const CheckpointManifest manifest,
                             ReadManifest(path));
  TRIBUTARY_ASSIGN_OR_RETURN(folder.temporary_, TemporaryDirectory::Create());
  folder.path_ = folder.temporary_->path();
  TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(
      absl::StrCat(folder.path_, "/job.textproto"), {manifest.job()}));
  const std::string final_folder = absl::StrCat(folder.path_, "/final");
  TRIBUTARY_RETURN_IF_ERROR(FileSystem::Posix()->MakeFolder(final_folder));
  TRIBUTARY_RETURN_IF_ERROR(
      WriteModel(path, manifest, /*average=*/false,
                 absl::StrCat(final_folder, "/model.safetensors")));
  if (absl::c_linear_search(manifest.state(), kAverageSlot)) {
    TRIBUTARY_RETURN_IF_ERROR(
        WriteModel(path, manifest, /*average=*/true,
                   absl::StrCat(final_folder, "/average.safetensors")));
  }
  if (manifest.tables()) {
    TRIBUTARY_RETURN_IF_ERROR(LinkCheckpoint(path, folder.path_));
  }
  // The checkpoint is RUN/best or RUN/checkpoints/step-NNNNNNNN.
  for (const char* run : {"/..", "/../.."}) {
    const std::string encoding = absl::StrCat(path, run, "/", kEncodingName);
    if (!PathExists(encoding)) continue;
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                               ReadFile(encoding, kMaxEncodingFileBytes));
    TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(
        absl::StrCat(final_folder, "/", kEncodingName), {text}));
    break;
  }
  return folder;
}

}  // namespace tributary
