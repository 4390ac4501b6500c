// The interface for the parts of a checkpoint that block on the disk.
#ifndef TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_COMMITTER_H_
#define TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_COMMITTER_H_

#include <cstdint>
#include <string>

#include "proto/checkpoint.pb.h"

namespace tributary {

// Creates the folder into which servers write a checkpoint, and commits the
// checkpoint after they have written it. Called with the coordinator's lock
// held: implementations must neither block nor call the coordinator on the
// calling thread.
class CheckpointCommitter {
 public:
  virtual ~CheckpointCommitter() = default;

  // Creates a folder for a checkpoint at `step`. Passes the folder's path, or
  // the error, to Coordinator::OnCheckpointFolder.
  virtual void MakeFolder(int64_t step) = 0;
  // Renames `folder` to that of a checkpoint, which `manifest` describes.
  // Passes the result to Coordinator::OnCheckpointCommitted.
  virtual void Commit(const std::string& folder,
                      const CheckpointManifest& manifest) = 0;
  // Renames `folder` to that of the best checkpoint, which `manifest`
  // describes: the checkpoint of the version with the best evaluation so far.
  // Replaces the previous best checkpoint. Passes the result to
  // Coordinator::OnCheckpointCommitted.
  virtual void CommitBest(const std::string& folder,
                          const CheckpointManifest& manifest) = 0;
  // Removes a folder that MakeFolder created.
  virtual void Discard(const std::string& folder) = 0;
  // Logs that the checkpoint at `step` failed, and why.
  virtual void Warn(int64_t step, const std::string& message) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_COMMITTER_H_
