#include "deploy/tools/runs/run_folders.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Returns true for files that are refused, too: the user should see the run,
// with the reason.
bool IsRun(const UntrustedFolder& folder) {
  for (const char* const name : {"job.textproto", "metrics.jsonl"}) {
    if (!absl::IsNotFound(folder.Look(name).status())) return true;
  }
  return false;
}

}  // namespace

absl::Status RunFolders::Add(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(absl::StrCat(
        path,
        " is not a folder; pass the folder of a run, which `tributary train` "
        "prints, or one that contains such folders"));
  }
  if (IsRun(UntrustedFolder(path))) {
    runs_.push_back(path);
  } else {
    parents_.emplace_back(path);
  }
  return absl::OkStatus();
}

std::vector<UntrustedFolder> RunFolders::TakeNew() {
  std::vector<UntrustedFolder> found;
  const auto take = [&](UntrustedFolder folder) {
    if (known_.insert(folder.path()).second) found.push_back(std::move(folder));
  };
  for (const std::string& path : runs_) take(UntrustedFolder(path));
  for (const UntrustedFolder& parent : parents_) {
    for (const std::string& name : parent.Folders()) {
      UntrustedFolder folder = parent.Subfolder(name);
      if (known_.count(folder.path()) == 0 && IsRun(folder)) {
        take(std::move(folder));
      }
    }
  }
  return found;
}

}  // namespace tributary
