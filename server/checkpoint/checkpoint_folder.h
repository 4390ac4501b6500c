// Where checkpoints lie, and how a folder of files becomes one: by a rename,
// when everything in it is on the disk.
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

// DIR/checkpoints, of a run's folder.
std::string CheckpointsFolder(absl::string_view run);

// One in CheckpointsFolder.
struct CheckpointName {
  int64_t step = 0;
  std::string path;
};

// Those in `folder` (see CheckpointsFolder), newest first. Nothing in them is
// looked at. None if the folder is not there.
absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(
    const std::string& folder);

// How many checkpoints stay. A name that this file does not make is never
// touched.
struct CheckpointRetention {
  // The newest so many; 0: all.
  int64_t keep_last = 0;
  // Besides, those whose step is a multiple of this; 0: none.
  int64_t keep_every = 0;
};

// Writes checkpoints into one folder. Not thread-safe; blocks on the disk.
class CheckpointFolder {
 public:
  // `folder` is a run's CheckpointsFolder; `files` must outlive this object.
  CheckpointFolder(std::string folder, FileSystem* files)
      : folder_(std::move(folder)), files_(files) {}

  // Makes a folder, under a name that is no checkpoint's, for the files of step
  // `step`; returns its path. Removes what a crash or an error has left behind:
  // there is one save at a time.
  absl::StatusOr<std::string> Begin(int64_t step);

  // Everything that the manifest speaks of is written and synced in
  // `temporary`: makes it the checkpoint. When this returns OK it survives a
  // power cut; on any error there is no such checkpoint, or all of it. One of
  // the same step that is there already stays until then, and is kept under
  // another name, step-*.old-*, for whoever wants to know why it was there.
  // (Where the file system cannot exchange names, a crash may leave it under
  // the other name only.)
  absl::Status Commit(const std::string& temporary,
                      const CheckpointManifest& manifest);

  // Removes a folder that Begin has made. What cannot be removed now is removed
  // by the next Begin.
  void Discard(const std::string& temporary);

  // Removes the checkpoints that need not stay, oldest first; never the newest.
  // Those of later steps than the last Commit of this object do not count and
  // stay: they were given up, being damaged perhaps, when training went on from
  // an earlier one.
  absl::Status Prune(const CheckpointRetention& retention);

 private:
  // With what is in it. Its files first get out of sight by a rename, so that
  // nobody finds half of a checkpoint.
  absl::Status RemoveCheckpoint(const std::string& path);
  // A folder, or a file, whose name is on the disk.
  void RemoveWithContents(const std::string& path);
  // Gives the folder `temporary` the checkpoint's name `path`. Whatever had it
  // before is then called `aside`; on an error it has it still.
  absl::Status PutInPlace(const std::string& temporary, const std::string& path,
                          const std::string& aside);

  const std::string folder_;
  FileSystem* const files_;
  // The step of the last Commit; none: all checkpoints are older.
  int64_t committed_step_ = std::numeric_limits<int64_t>::max();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_
