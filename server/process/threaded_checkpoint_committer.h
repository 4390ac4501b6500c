// Commits checkpoints for the coordinator on a separate thread.
#ifndef TRIBUTARY_SERVER_PROCESS_THREADED_CHECKPOINT_COMMITTER_H_
#define TRIBUTARY_SERVER_PROCESS_THREADED_CHECKPOINT_COMMITTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/executor.h"
#include "common/os/file_system.h"
#include "common/os/logger.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/coordinator/checkpoint_committer.h"
#include "server/coordinator/coordinator.h"

namespace tributary {

// Creates and commits checkpoints asynchronously, in the order of the calls,
// and passes the results to the coordinator. Logs each committed checkpoint.
// Thread-safe.
class ThreadedCheckpointCommitter final : public CheckpointCommitter {
 public:
  struct Options {
    std::string folder;  // The CheckpointsFolder of the run.
    std::string best;    // The BestFolder of the run.
    CheckpointRetention retention;
    FileSystem* files = FileSystem::Posix();
    // Called before every commit. If it returns an error, the checkpoint is not
    // committed. FailedPrecondition means that a newer coordinator has taken
    // over the job, and is passed to Coordinator::Overtaken.
    std::function<absl::Status()> before_commit;
    Logger* log = nullptr;
  };
  // Creates and commits checkpoints on `thread`, which must run one task at a
  // time.
  ThreadedCheckpointCommitter(Options options,
                              std::unique_ptr<Executor> thread);
  // Waits until all requests are done.
  ~ThreadedCheckpointCommitter() override;

  // Sets the coordinator that receives the results. Call it before the first
  // request. The coordinator must outlive Stop.
  void SetCoordinator(Coordinator* coordinator) { coordinator_ = coordinator; }
  // Waits until all requests are done. Do not call any other method afterwards.
  void Stop() { thread_.reset(); }

  void MakeFolder(int64_t step) override;
  void Commit(const std::string& folder,
              const CheckpointManifest& manifest) override;
  void CommitBest(const std::string& folder,
                  const CheckpointManifest& manifest) override;
  void Discard(const std::string& folder) override;
  void Warn(int64_t step, const std::string& message) override;

 private:
  // Returns OK if the checkpoint in `folder` may be committed.
  absl::Status CheckCommit(const std::string& folder,
                           const CheckpointManifest& manifest);
  absl::Status CommitNow(const std::string& folder,
                         const CheckpointManifest& manifest);

  const Options options_;
  Coordinator* coordinator_ = nullptr;
  CheckpointFolder folder_;  // Accessed only by tasks of thread_.
  std::unique_ptr<Executor> thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_THREADED_CHECKPOINT_COMMITTER_H_
