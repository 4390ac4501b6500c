// Finds the folders of runs.
#ifndef TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_FOLDERS_H_
#define TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_FOLDERS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/os/untrusted_folder.h"

namespace tributary {

// The folders of runs that a user asks for: a run has a folder with a job file
// or metrics. Not thread-safe. Methods block on the disk.
class RunFolders {
 public:
  // Adds the run in the folder `path`. If the folder is not that of a run, adds
  // the runs in its subfolders, except subfolders that are symbolic links:
  // their target may be the folder of another user. Returns NotFound if there
  // is no such folder.
  absl::Status Add(const std::string& path);
  // Adds the runs in the subfolders of `parent`, which may begin to exist
  // later.
  void AddIn(UntrustedFolder parent) { parents_.push_back(std::move(parent)); }

  // Returns the runs that were added, or have begun in an added folder, since
  // the last call. Runs of one folder are sorted by name.
  std::vector<UntrustedFolder> TakeNew();

  bool empty() const { return runs_.empty() && parents_.empty(); }

 private:
  std::vector<std::string> runs_;         // Paths of runs that were added.
  std::vector<UntrustedFolder> parents_;  // Folders that may contain runs.
  std::set<std::string> known_;           // Paths that TakeNew has returned.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_FOLDERS_H_
