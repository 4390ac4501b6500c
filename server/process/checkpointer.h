// Writes checkpoints for the coordinator, away from its threads.
#ifndef TRIBUTARY_SERVER_PROCESS_CHECKPOINTER_H_
#define TRIBUTARY_SERVER_PROCESS_CHECKPOINTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/executor.h"
#include "common/os/file_system.h"
#include "common/os/log.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/coordinator/coordinator.h"

namespace tributary {

// Thread-safe. One that fails is logged once, until one succeeds.
class Checkpointer final : public CheckpointSink {
 public:
  struct Options {
    std::string folder;  // See CheckpointsFolder.
    CheckpointRetention retention;
    FileSystem* files = FileSystem::Posix();
    // Called before every commit, which an error prevents. FailedPrecondition:
    // another coordinator has taken the job over.
    std::function<absl::Status()> before_commit;
    Logger* log = nullptr;
  };
  // On a thread of its own.
  explicit Checkpointer(Options options);
  // `thread` runs one task at a time.
  Checkpointer(Options options, std::unique_ptr<Executor> thread);
  // Finishes what it was asked for.
  ~Checkpointer() override;

  // Where answers go; before anything is asked for. It must outlive Stop.
  void SetCoordinator(Coordinator* coordinator) { coordinator_ = coordinator; }
  // Finishes what it was asked for; nothing may be asked for after it.
  void Stop() { thread_.reset(); }

  void MakeFolder(int64_t step) override;
  void Commit(const std::string& folder,
              const CheckpointManifest& manifest) override;
  void Discard(const std::string& folder) override;
  void Warn(int64_t step, const std::string& message) override;

 private:
  absl::Status CommitNow(const std::string& folder,
                         const CheckpointManifest& manifest);

  const Options options_;
  Coordinator* coordinator_ = nullptr;
  CheckpointFolder folder_;  // Used by the thread only.
  std::unique_ptr<Executor> thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_CHECKPOINTER_H_
