// What the dashboard shows of one run: the files in its folder, and the answers
// of its coordinator while the job runs.
#ifndef TRIBUTARY_DEPLOY_DASHBOARD_RUN_VIEW_H_
#define TRIBUTARY_DEPLOY_DASHBOARD_RUN_VIEW_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/transport/security.h"
#include "deploy/dashboard/metrics_index.h"
#include "deploy/dashboard/remote_records.h"
#include "deploy/launcher/status_poller.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/job.pb.h"

namespace tributary {

// Every method returns a JSON object. Reads files, but does not wait for the
// network. Not thread-safe.
class RunView {
 public:
  // The run in `folder`. While server 0 runs, the folder has a file with its
  // address, and the view asks it for the job's status.
  RunView(std::string folder, Security security);
  // The job of the coordinator at `address` (host:port), which sends the view
  // what is in the run's folder.
  static std::unique_ptr<RunView> OfCoordinator(const std::string& address,
                                                const Security& security);

  // Returns what the list of runs shows: name, path, state, step, steps, ...
  // "problem" is the reason why records cannot be fetched, or empty.
  nlohmann::ordered_json Overview();

  // Returns the numbers of the lines with `from` <= step <= `to`, in at most
  // `points` groups of neighboring steps: the mean, the smallest and the
  // largest value of each field in each group, and the last step of the group.
  // "newest" has the values of the last of these lines.
  nlohmann::ordered_json Series(int64_t from, int64_t to, int points);

  // Returns up to `count` lines with `from` <= step <= `to` as they are in the
  // file, evenly chosen, the last one included. Leaves out evaluations.
  nlohmann::ordered_json Lines(int64_t from, int64_t to, int count);

  // Returns the newest status, its age in seconds, the summary, and the bytes
  // that each process of the live job, or otherwise of the ended one, should
  // send and receive in each step.
  nlohmann::ordered_json Status();

  // Returns the job file, and the path and the value of each field.
  nlohmann::ordered_json Job() const;

  // Returns up to `count` of the newest lines of the log of server 0, and the
  // text that was sampled at the end. Both are null with OfCoordinator.
  nlohmann::ordered_json Log(int count) const;

  // Returns up to `count` of the newest events, oldest first; see NewestEvents.
  // With OfCoordinator, there are up to 256.
  nlohmann::ordered_json Events(int count) const;

 private:
  RunView(std::string folder, Security security,
          std::unique_ptr<RemoteRecords> remote);
  void Update();
  // Returns true if the coordinator has answered lately.
  bool Live() const;
  // Returns the content of summary.json, or null.
  nlohmann::ordered_json Summary() const;
  // Returns the resolved job, or an error.
  absl::StatusOr<JobSpec> ResolvedJob() const;

  const std::string folder_;  // Empty with OfCoordinator.
  const Security security_;
  std::string coordinator_;               // The address that poller_ asks.
  std::unique_ptr<StatusPoller> poller_;  // Null if there is no address.
  const std::unique_ptr<RemoteRecords> remote_;  // With OfCoordinator.
  MetricsIndex index_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_RUN_VIEW_H_
