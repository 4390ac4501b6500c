// The runs and the studies that the dashboard shows.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RUN_LIST_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RUN_LIST_H_

#include <cstddef>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "deploy/tools/dashboard/run_view.h"
#include "deploy/tools/dashboard/study_view.h"
#include "deploy/tools/runs/run_folders.h"
#include "deploy/tools/status/run_address.h"

namespace tributary {

// The list of the runs that the dashboard shows, and of the studies of
// `tributary tune`. A run never changes its position in the list. Not
// thread-safe.
class RunList {
 public:
  // Maximum number of lines of metrics.jsonl that all runs keep in memory.
  static constexpr size_t kMaxIndexedLines = 1 << 20;

  explicit RunList(RunAddressRules rules)
      : rules_(std::make_shared<RunAddressRules>(std::move(rules))) {}

  // Adds the study in the folder `path` and the runs of its trials; or else the
  // run in the folder, or the runs (see RunFolders::Add) and the studies in its
  // subfolders. Refresh then adds runs and studies that begin there later.
  // Returns NotFound if there is no such folder.
  absl::Status AddPath(const std::string& path);
  // Adds the run of the job whose coordinator is at `address` (host:port).
  void AddCoordinator(const std::string& address);

  // Adds the runs and studies that have begun, since the last call, in the
  // folders that were passed to AddPath.
  void Refresh();
  // Queries the status of all jobs, and waits up to `timeout` for the replies.
  // A running job on this machine usually replies within milliseconds.
  void AwaitStatuses(absl::Duration timeout);

  bool empty() const { return runs_.empty() && folders_.empty(); }
  const std::vector<std::unique_ptr<RunView>>& runs() const { return runs_; }
  const std::vector<std::unique_ptr<StudyView>>& studies() const {
    return studies_;
  }

  // Releases the memory of other runs if, with this run, which a request has
  // just used, all runs keep more than kMaxIndexedLines.
  void OnUsed(const RunView& run);

 private:
  const std::shared_ptr<RunAddressRules> rules_;
  RunFolders folders_;
  std::vector<std::unique_ptr<RunView>> runs_;
  // Folders that may be or contain studies, and the paths of known studies.
  std::vector<std::string> study_paths_;
  std::set<std::string> known_studies_;
  std::vector<std::unique_ptr<StudyView>> studies_;
  // The runs that requests have used, the last one first.
  std::list<const RunView*> used_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RUN_LIST_H_
