// Follows a run in a folder: its files and, while its job runs, the status that
// its coordinator reports.
#ifndef TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_WATCH_H_
#define TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_WATCH_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/os/untrusted_folder.h"
#include "deploy/launch/job/status_poller.h"
#include "deploy/tools/runs/run_record.h"
#include "deploy/tools/status/run_address.h"

namespace tributary {

// Returns true if the coordinator has answered a query of `poller` in the last
// few seconds. `poller` may be null.
bool IsLive(const StatusPoller* poller);

// A run in a folder. While server 0 of the run's job is running, the folder
// contains a file with its address; this object queries the job's status there,
// if `rules` allow it (see AddressOfRun). Not thread-safe.
class RunWatch {
 public:
  RunWatch(UntrustedFolder folder, std::shared_ptr<const RunAddressRules> rules)
      : record_(std::move(folder)), rules_(std::move(rules)) {}

  // Reads the files of the run that have changed, and starts a query of the
  // status, but does not wait for its reply.
  void Update();

  const RunRecord& record() const { return record_; }
  // Returns the object that queries the coordinator; null if the run has no
  // coordinator that may be queried.
  StatusPoller* poller() const { return poller_.get(); }
  // Returns true if the coordinator answers, and its job is that of this run.
  bool live() const;
  // Returns the address (host:port) of the coordinator that is queried; an
  // empty string if there is none.
  const std::string& coordinator() const { return coordinator_; }
  // Returns why the coordinator is not queried although the folder names one;
  // an empty string if there is no such reason.
  const std::string& problem() const { return problem_; }

 private:
  RunRecord record_;
  const std::shared_ptr<const RunAddressRules> rules_;
  std::string coordinator_;
  std::string token_;  // The token that is sent to it.
  std::string problem_;
  std::string run_id_;  // Of the run in the folder; empty if unknown.
  std::unique_ptr<StatusPoller> poller_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_WATCH_H_
