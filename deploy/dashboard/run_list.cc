#include "deploy/dashboard/run_list.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

bool IsRun(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / "job.textproto", error) ||
         std::filesystem::exists(folder / "metrics.jsonl", error);
}

}  // namespace

absl::Status RunList::AddPath(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(absl::StrCat(
        path,
        " is not a folder; pass the folder of a run, which `tributary train` "
        "prints, or one that contains such folders"));
  }
  if (IsRun(path)) {
    AddRun(path);
  } else {
    parents_.push_back(path);
    Refresh();
  }
  return absl::OkStatus();
}

void RunList::AddCoordinator(const std::string& address) {
  runs_.push_back(RunView::OfCoordinator(address, security_));
}

void RunList::Refresh() {
  for (const std::string& parent : parents_) {
    std::vector<std::string> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(parent, error), end;
         !error && entry != end; entry.increment(error)) {
      const std::string path = entry->path().string();
      if (known_.count(path) == 0 && IsRun(path)) found.push_back(path);
    }
    std::sort(found.begin(), found.end());
    for (const std::string& path : found) AddRun(path);
  }
}

void RunList::AddRun(const std::string& path) {
  if (!known_.insert(path).second) return;
  runs_.push_back(std::make_unique<RunView>(path, security_));
}

}  // namespace tributary
