#include "deploy/tools/dashboard/run_list.h"

#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace tributary {

absl::Status RunList::AddPath(const std::string& path) {
  if (!StudyView::IsStudy(UntrustedFolder(path))) {
    TRIBUTARY_RETURN_IF_ERROR(folders_.Add(path));
  }
  study_paths_.push_back(path);
  Refresh();
  return absl::OkStatus();
}

void RunList::AddCoordinator(const std::string& address) {
  // The user has named the address, so it is allowed in runs' folders as well.
  rules_->named.push_back(address);
  runs_.push_back(RunView::OfCoordinator(address, rules_->security));
}

void RunList::Refresh() {
  const auto add = [this](const UntrustedFolder& folder, bool named) {
    if (known_studies_.count(folder.path()) > 0 ||
        !StudyView::IsStudy(folder)) {
      return;
    }
    known_studies_.insert(folder.path());
    studies_.push_back(std::make_unique<StudyView>(folder, named));
    if (named) folders_.AddIn(folder.Subfolder("trials"));
  };
  for (const std::string& path : study_paths_) {
    const UntrustedFolder folder(path);
    add(folder, /*named=*/true);
    for (const std::string& name : folder.Folders()) {
      add(folder.Subfolder(name), /*named=*/false);
    }
  }
  for (UntrustedFolder& folder : folders_.TakeNew()) {
    runs_.push_back(std::make_unique<RunView>(std::move(folder), rules_));
  }
}

void RunList::AwaitStatuses(absl::Duration timeout) {
  for (const std::unique_ptr<RunView>& run : runs_) run->Entry();
  const absl::Time deadline = absl::Now() + timeout;
  for (const std::unique_ptr<RunView>& run : runs_) run->AwaitStatus(deadline);
}

void RunList::OnUsed(const RunView& run) {
  used_.remove(&run);
  used_.push_front(&run);
  size_t lines = 0;
  for (const std::unique_ptr<RunView>& each : runs_) {
    lines += each->indexed_lines();
  }
  while (lines > kMaxIndexedLines && used_.back() != &run) {
    for (const std::unique_ptr<RunView>& each : runs_) {
      if (each.get() != used_.back()) continue;
      lines -= each->indexed_lines();
      each->DropIndex();
    }
    used_.pop_back();
  }
}

}  // namespace tributary
