// The runs that the dashboard shows.
#ifndef TRIBUTARY_DEPLOY_DASHBOARD_RUN_LIST_H_
#define TRIBUTARY_DEPLOY_DASHBOARD_RUN_LIST_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/transport/security.h"
#include "deploy/dashboard/run_view.h"

namespace tributary {

// The list of the runs that the dashboard shows. A run never changes its
// position in the list. Not thread-safe.
class RunList {
 public:
  explicit RunList(Security security) : security_(std::move(security)) {}

  // Adds the run in the folder `path`. If the folder is not that of a run, adds
  // the runs in its subfolders; Refresh then adds runs that begin there later.
  // Returns NotFound if there is no such folder.
  absl::Status AddPath(const std::string& path);
  // Adds the run of the job whose coordinator is at `address` (host:port).
  void AddCoordinator(const std::string& address);

  // Adds the runs that have begun, since the last call, in the folders that
  // were passed to AddPath.
  void Refresh();

  bool empty() const { return runs_.empty() && parents_.empty(); }
  const std::vector<std::unique_ptr<RunView>>& runs() const { return runs_; }

 private:
  void AddRun(const std::string& path);

  const Security security_;
  std::vector<std::string> parents_;  // Folders that may contain runs.
  std::set<std::string> known_;       // Folders of runs_.
  std::vector<std::unique_ptr<RunView>> runs_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_RUN_LIST_H_
