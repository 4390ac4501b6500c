#include "server/process/threaded_checkpoint_committer.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {

ThreadedCheckpointCommitter::ThreadedCheckpointCommitter(
    Options options, std::unique_ptr<Executor> thread)
    : options_(std::move(options)),
      folder_(options_.folder, options_.files),
      thread_(std::move(thread)) {}

ThreadedCheckpointCommitter::~ThreadedCheckpointCommitter() = default;

void ThreadedCheckpointCommitter::MakeFolder(int64_t step) {
  thread_->Run(
      [this, step] { coordinator_->OnCheckpointFolder(folder_.Begin(step)); });
}

void ThreadedCheckpointCommitter::Commit(const std::string& folder,
                                         const CheckpointManifest& manifest) {
  thread_->Run([this, folder, manifest] {
    const absl::Status status = CommitNow(folder, manifest);
    coordinator_->OnCheckpointCommitted(status);
    if (!status.ok()) return;
    options_.log->Info("checkpoint at step %d", manifest.step());
    const absl::Status pruned = folder_.Prune(options_.retention);
    if (!pruned.ok()) {
      options_.log->Warning("cannot remove old checkpoints: %s",
                            std::string(pruned.message()));
    }
  });
}

void ThreadedCheckpointCommitter::CommitBest(
    const std::string& folder, const CheckpointManifest& manifest) {
  thread_->Run([this, folder, manifest] {
    absl::Status status = CheckCommit(folder, manifest);
    if (status.ok()) {
      status = folder_.CommitAs(options_.best, folder, manifest);
    }
    coordinator_->OnCheckpointCommitted(status);
    if (status.ok()) {
      options_.log->Info("the best version so far, of step %d, is in %s",
                         manifest.step(), options_.best);
    }
  });
}

absl::Status ThreadedCheckpointCommitter::CheckCommit(
    const std::string& folder, const CheckpointManifest& manifest) {
  for (const CheckpointFile& file : manifest.file()) {
    const std::string path = absl::StrCat(folder, "/", file.name());
    struct stat facts;
    if (stat(path.c_str(), &facts) != 0 || facts.st_size != file.bytes()) {
      return absl::FailedPreconditionError(absl::StrCat(
          path,
          " is missing or differs in size from what its server wrote: the "
          "output folder must be on a file system that all servers share"));
    }
  }
  const absl::Status current = options_.before_commit();
  if (absl::IsFailedPrecondition(current)) coordinator_->Overtaken(current);
  return current;
}

absl::Status ThreadedCheckpointCommitter::CommitNow(
    const std::string& folder, const CheckpointManifest& manifest) {
  TRIBUTARY_RETURN_IF_ERROR(CheckCommit(folder, manifest));
  TRIBUTARY_RETURN_IF_ERROR(folder_.Commit(folder, manifest));
  const absl::Status pointed = folder_.PointToLatest(manifest.step());
  if (!pointed.ok()) {
    options_.log->Warning(
        "the checkpoint at step %d is complete, but the file latest may not "
        "name it: %s",
        manifest.step(), std::string(pointed.message()));
  }
  return absl::OkStatus();
}

void ThreadedCheckpointCommitter::Discard(const std::string& folder) {
  thread_->Run([this, folder] { folder_.Discard(folder); });
}

void ThreadedCheckpointCommitter::Warn(int64_t step,
                                       const std::string& message) {
  // Logging may block on a file, so it runs on the thread.
  thread_->Run([this, step, message] {
    options_.log->Warning(
        "no checkpoint at step %d; an earlier one, if there is any, stays the "
        "newest: %s",
        step, message);
  });
}

}  // namespace tributary
