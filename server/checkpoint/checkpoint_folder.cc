#include "server/checkpoint/checkpoint_folder.h"

#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/file.h"
#include "common/status_macros.h"
#include "server/checkpoint/manifest.h"

namespace tributary {
namespace {

constexpr char kPrefix[] = "step-";
// What this file has made and not finished, or begun to remove.
constexpr char kTemporary[] = ".tmp-";
constexpr char kLatest[] = "latest";

std::string StepName(int64_t step) {
  return absl::StrFormat("%s%08d", kPrefix, step);
}

std::string UniqueSuffix() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

// -1: not a checkpoint's name.
int64_t StepOf(absl::string_view name) {
  int64_t step = -1;
  absl::string_view digits = name;
  if (!absl::ConsumePrefix(&digits, kPrefix) || digits.size() < 8 ||
      !absl::SimpleAtoi(digits, &step) || StepName(step) != name) {
    return -1;
  }
  return step;
}

bool IsTemporary(absl::string_view name) {
  return absl::StartsWith(name, kPrefix) && absl::StrContains(name, kTemporary);
}

}  // namespace

std::string CheckpointsFolder(absl::string_view run) {
  return absl::StrCat(run, "/checkpoints");
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
  TRIBUTARY_RETURN_IF_ERROR(files_->MakeFolder(folder_));
  TRIBUTARY_RETURN_IF_ERROR(files_->SyncFolder(FolderOf(folder_)));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                             ListFolder(folder_));
  for (const std::string& name : names) {
    // What a crash has left.
    if (IsTemporary(name)) Discard(absl::StrCat(folder_, "/", name));
  }
  const std::string path =
      absl::StrCat(folder_, "/", StepName(step), kTemporary, UniqueSuffix());
  TRIBUTARY_RETURN_IF_ERROR(files_->MakeFolder(path));
  return path;
}

absl::Status CheckpointFolder::Commit(const std::string& temporary,
                                      const CheckpointManifest& manifest) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text, PrintManifest(manifest));
  TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(
      absl::StrCat(temporary, "/", kManifestName), {text}, files_));
  const std::string name = StepName(manifest.step());
  const std::string path = absl::StrCat(folder_, "/", name);
  if (access(path.c_str(), F_OK) == 0) {
    // A damaged one, most likely: training has come by here before.
    TRIBUTARY_RETURN_IF_ERROR(
        files_->Rename(path, absl::StrCat(path, ".old-", UniqueSuffix())));
  }
  TRIBUTARY_RETURN_IF_ERROR(files_->Rename(temporary, path));
  TRIBUTARY_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  // For people and scripts; ListCheckpoints needs no pointer.
  return WriteFileAtomically(absl::StrCat(folder_, "/", kLatest),
                             {absl::StrCat(name, "\n")}, files_);
}

void CheckpointFolder::Discard(const std::string& temporary) {
  // Whatever stays is found by the next Begin.
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(temporary);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    (void)files_->Remove(absl::StrCat(temporary, "/", name));
  }
  (void)files_->Remove(temporary);
}

absl::Status CheckpointFolder::RemoveCheckpoint(const std::string& path) {
  const std::string aside = absl::StrCat(path, kTemporary, UniqueSuffix());
  TRIBUTARY_RETURN_IF_ERROR(files_->Rename(path, aside));
  TRIBUTARY_RETURN_IF_ERROR(files_->SyncFolder(folder_));
  Discard(aside);
  return absl::OkStatus();
}

absl::Status CheckpointFolder::Prune(const CheckpointRetention& retention) {
  if (retention.keep_last == 0) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(std::vector<CheckpointName> checkpoints,
                             ListCheckpoints(folder_));
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
