#include "server/checkpoint/checkpoint_folder.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "server/checkpoint/manifest.h"

namespace tributary {
namespace {

constexpr char kPrefix[] = "step-";
// Marks an existing checkpoint that a new one of the same step replaced.
constexpr char kAside[] = ".old-";
constexpr char kLatest[] = "latest";

std::string StepName(int64_t step) {
  return absl::StrFormat("%s%08d", kPrefix, step);
}

// Returns the step in a checkpoint's name, or -1 for any other name.
int64_t StepOf(absl::string_view name) {
  int64_t step = -1;
  absl::string_view digits = name;
  if (!absl::ConsumePrefix(&digits, kPrefix) || digits.size() < 8 ||
      !absl::SimpleAtoi(digits, &step) || StepName(step) != name) {
    return -1;
  }
  return step;
}

// Returns true if `name` is a temporary name: the name of an unfinished or
// partly removed checkpoint, or of the file that points to the newest
// checkpoint.
bool IsLeftover(absl::string_view name) {
  const absl::string_view whole = name.substr(0, name.find('.'));
  return (whole == kLatest || StepOf(whole) >= 0) && IsUnfinished(name, whole);
}

}  // namespace

std::string CheckpointsFolder(absl::string_view run) {
  return absl::StrCat(run, "/checkpoints");
}

std::string BestFolder(absl::string_view run) {
  return absl::StrCat(run, "/best");
}

absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(
    const std::string& folder) {
  absl::StatusOr<std::vector<std::string>> names = ListFolder(folder);
  std::vector<CheckpointName> found;
  if (absl::IsNotFound(names.status())) return found;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const int64_t step = StepOf(name);
    if (step >= 0) found.push_back({step, absl::StrCat(folder, "/", name)});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointName& a, const CheckpointName& b) {
              return a.step > b.step;
            });
  return found;
}

absl::StatusOr<std::string> CheckpointFolder::Begin(int64_t step) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S11"));
  TRIBUTARY_RETURN_IF_ERROR(files_->MakeFolder(folder_));
  TRIBUTARY_RETURN_IF_ERROR(files_->SyncFolder(FolderOf(folder_)));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                             ListFolder(folder_));
  for (const std::string& name : names) {
    if (IsLeftover(name)) Discard(absl::StrCat(folder_, "/", name));
  }
  const std::string path =
      UnfinishedName(absl::StrCat(folder_, "/", StepName(step)));
  TRIBUTARY_RETURN_IF_ERROR(files_->MakeFolder(path));
  return path;
}

absl::Status CheckpointFolder::Commit(const std::string& temporary,
                                      const CheckpointManifest& manifest) {
  TRIBUTARY_RETURN_IF_ERROR(WriteManifest(temporary, manifest, files_));
  const std::string path =
      absl::StrCat(folder_, "/", StepName(manifest.step()));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S14"));
  TRIBUTARY_RETURN_IF_ERROR(
      PutInPlace(temporary, path, absl::StrCat(path, kAside, RandomSuffix())));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S15"));
  TRIBUTARY_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  committed_step_ = manifest.step();
  return absl::OkStatus();
}

absl::Status CheckpointFolder::CommitAs(const std::string& path,
                                        const std::string& temporary,
                                        const CheckpointManifest& manifest) {
  TRIBUTARY_RETURN_IF_ERROR(WriteManifest(temporary, manifest, files_));
  if (access(path.c_str(), F_OK) != 0) {
    TRIBUTARY_RETURN_IF_ERROR(files_->Rename(temporary, path));
  } else {
    absl::Status replaced = files_->Exchange(temporary, path);
    if (absl::IsUnimplemented(replaced)) {
      // The next Begin removes it, because its name is a temporary one.
      const std::string aside =
          UnfinishedName(absl::StrCat(folder_, "/", StepName(manifest.step())));
      TRIBUTARY_RETURN_IF_ERROR(files_->Rename(path, aside));
      replaced = files_->Rename(temporary, path);
      if (!replaced.ok()) (void)files_->Rename(aside, path);
    }
    TRIBUTARY_RETURN_IF_ERROR(replaced);
  }
  TRIBUTARY_RETURN_IF_ERROR(files_->SyncFolder(FolderOf(path)));
  // Removes the replaced checkpoint, which now has the temporary name.
  if (access(temporary.c_str(), F_OK) == 0) Discard(temporary);
  return files_->SyncFolder(folder_);
}

absl::Status CheckpointFolder::PointToLatest(int64_t step) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S16"));
  return WriteFileAtomically(absl::StrCat(folder_, "/", kLatest),
                             {absl::StrCat(StepName(step), "\n")}, files_);
}

absl::Status CheckpointFolder::PutInPlace(const std::string& temporary,
                                          const std::string& path,
                                          const std::string& aside) {
  if (access(path.c_str(), F_OK) != 0) return files_->Rename(temporary, path);
  // The step was saved before. With Exchange, one of the two checkpoints has
  // the name at any time.
  const absl::Status exchanged = files_->Exchange(temporary, path);
  if (exchanged.ok()) {
    const absl::Status renamed = files_->Rename(temporary, aside);
    // On an error the caller discards `temporary`, so that name must not hold
    // the existing checkpoint.
    if (!renamed.ok()) (void)files_->Exchange(temporary, path);
    return renamed;
  }
  if (!absl::IsUnimplemented(exchanged)) return exchanged;
  TRIBUTARY_RETURN_IF_ERROR(files_->Rename(path, aside));
  const absl::Status renamed = files_->Rename(temporary, path);
  if (!renamed.ok()) (void)files_->Rename(aside, path);
  return renamed;
}

void CheckpointFolder::Discard(const std::string& temporary) {
  // Syncs first: otherwise a power failure could restore an earlier name of the
  // folder without its files. The next Begin removes what remains.
  if (!files_->SyncFolder(folder_).ok()) return;
  RemoveWithContents(temporary);
}

void CheckpointFolder::RemoveWithContents(const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(path);
  if (names.ok()) {
    for (const std::string& name : *names) {
      (void)files_->Remove(absl::StrCat(path, "/", name));
    }
  }
  (void)files_->Remove(path);
}

absl::Status CheckpointFolder::RemoveCheckpoint(const std::string& path) {
  const std::string aside = UnfinishedName(path);
  TRIBUTARY_RETURN_IF_ERROR(files_->Rename(path, aside));
  TRIBUTARY_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  RemoveWithContents(aside);
  return absl::OkStatus();
}

absl::Status CheckpointFolder::Prune(const CheckpointRetention& retention) {
  if (retention.keep_last == 0) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(std::vector<CheckpointName> checkpoints,
                             ListCheckpoints(folder_));
  checkpoints.erase(std::remove_if(checkpoints.begin(), checkpoints.end(),
                                   [this](const CheckpointName& checkpoint) {
                                     return checkpoint.step > committed_step_;
                                   }),
                    checkpoints.end());
  const size_t kept =
      static_cast<size_t>(std::max<int64_t>(retention.keep_last, 1));
  for (size_t i = checkpoints.size(); i-- > kept;) {
    const CheckpointName& checkpoint = checkpoints[i];
    if (retention.keep_every > 0 &&
        checkpoint.step % retention.keep_every == 0) {
      continue;
    }
    TRIBUTARY_RETURN_IF_ERROR(RemoveCheckpoint(checkpoint.path));
  }
  return absl::OkStatus();
}

}  // namespace tributary
