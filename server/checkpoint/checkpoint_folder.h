// The folder of a run's checkpoints. A checkpoint is written under a temporary
// name and renamed when all its files are on disk.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/os/file_system.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// Returns the checkpoints folder of the run folder `run`: RUN/checkpoints.
std::string CheckpointsFolder(absl::string_view run);

// Returns the folder with the checkpoint of the version with the best
// evaluation, in the run folder `run`: RUN/best.
std::string BestFolder(absl::string_view run);

// A checkpoint in a CheckpointsFolder.
struct CheckpointName {
  int64_t step = 0;
  std::string path;
};

// Lists the checkpoints in `folder` (see CheckpointsFolder), newest first.
// Reads only the names, not the contents, of the checkpoints. Returns an empty
// list if the folder does not exist, and the system's error if it cannot be
// read.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(
    const std::string& folder);

// States which checkpoints CheckpointFolder::Prune keeps. Prune never removes a
// folder whose name does not have the form that CheckpointFolder gives to
// checkpoints.
struct CheckpointRetention {
  // Number of newest checkpoints to keep; 0 keeps all.
  int64_t keep_last = 0;
  // Also keeps each checkpoint whose step is a multiple of this number. If 0,
  // keeps no checkpoints in addition to keep_last.
  int64_t keep_every = 0;
};

// Writes checkpoints into one folder. Not thread-safe; blocks on the disk.
class CheckpointFolder {
 public:
  // `folder` is a run's CheckpointsFolder. `files` must outlive this object.
  CheckpointFolder(std::string folder, FileSystem* files)
      : folder_(std::move(folder)), files_(files) {}

  // Creates a folder with a temporary name for the files of a checkpoint at
  // step `step`, and returns the folder's path. First removes all temporary
  // folders and files, which a crash or an error has left. Therefore, only one
  // checkpoint may be in progress at a time. Returns the system's error if the
  // folder cannot be created.
  absl::StatusOr<std::string> Begin(int64_t step);

  // Turns the folder `temporary` into the checkpoint that `manifest` describes.
  // The folder must contain all files that the manifest names, written and
  // synced. If Commit returns OK, the checkpoint survives a power failure. If
  // it returns an error, the checkpoint either does not exist or is complete.
  // The file `latest` is not changed; see PointToLatest.
  //
  // An existing checkpoint of the same step keeps its name until the new
  // checkpoint takes this name. The existing one then remains for inspection
  // as step-*.old-*. On a file system that cannot exchange two names
  // atomically, a crash may leave only the existing checkpoint, under the name
  // step-*.old-*.
  absl::Status Commit(const std::string& temporary,
                      const CheckpointManifest& manifest);

  // Commits a checkpoint as Commit does, but at `path`, which must be next to
  // the run's checkpoints folder. Removes an existing checkpoint at `path`. On
  // a file system that cannot exchange two names atomically, a crash may leave
  // no checkpoint at `path`.
  absl::Status CommitAs(const std::string& path, const std::string& temporary,
                        const CheckpointManifest& manifest);

  // Writes the name of the checkpoint of `step` to the file `latest`. This file
  // is for users and scripts; ListCheckpoints does not read it, so the
  // checkpoint is found even if this fails.
  absl::Status PointToLatest(int64_t step);

  // Removes a folder that Begin created. If Discard cannot remove it, the next
  // Begin does.
  void Discard(const std::string& temporary);

  // Removes, oldest first, the checkpoints that `retention` does not keep.
  // Never removes the newest checkpoint. Checkpoints of later steps than this
  // object's last Commit are neither counted nor removed: they exist if the job
  // resumed from an earlier checkpoint, and they may be damaged. Returns the
  // system's error if a checkpoint cannot be removed.
  absl::Status Prune(const CheckpointRetention& retention);

 private:
  // Removes a checkpoint and its files. Renames it to a temporary name first,
  // so that a reader never finds part of a checkpoint.
  absl::Status RemoveCheckpoint(const std::string& path);
  // Removes a file, or a folder and its files. If the file or folder was
  // renamed to `path`, that renaming must have been synced: otherwise a power
  // failure could restore the earlier name for a folder without its files.
  void RemoveWithContents(const std::string& path);
  // Renames the folder `temporary` to `path`, the checkpoint's name. Renames an
  // existing folder at `path` to `aside`. After an error, the existing folder
  // is still at `path`.
  absl::Status PutInPlace(const std::string& temporary, const std::string& path,
                          const std::string& aside);

  const std::string folder_;
  FileSystem* const files_;
  // Step of the last Commit. Before the first Commit it is larger than any
  // step, so that Prune counts every checkpoint.
  int64_t committed_step_ = std::numeric_limits<int64_t>::max();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_
