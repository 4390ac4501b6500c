// Interface for the part of a checkpoint that waits for the disk.
#ifndef TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_COMMITTER_H_
#define TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_COMMITTER_H_

#include <cstdint>
#include <string>

#include "proto/checkpoint.pb.h"

namespace tributary {

// Makes the folder that servers write a checkpoint into, and commits it when
// they have. Called with the coordinator's lock held: implementations must
// neither block nor call the coordinator on the calling thread.
class CheckpointCommitter {
 public:
  virtual ~CheckpointCommitter() = default;

  // Answered by Coordinator::OnCheckpointFolder.
  virtual void MakeFolder(int64_t step) = 0;
  // Answered by Coordinator::OnCheckpointCommitted.
  virtual void Commit(const std::string& folder,
                      const CheckpointManifest& manifest) = 0;
  virtual void Discard(const std::string& folder) = 0;
  // Logs that the checkpoint at `step` failed, and why.
  virtual void Warn(int64_t step, const std::string& message) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_CHECKPOINT_COMMITTER_H_
