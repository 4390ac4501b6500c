// What the dashboard shows of one run. It comes from the files in the run's
// folder and, while the job runs, from the replies of its coordinator.
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

// Provides the data that the dashboard shows of one run. Every public method
// returns a JSON object; it may read files, but does not wait for the network.
// Not thread-safe.
class RunView {
 public:
  // Shows the run in `folder`. While server 0 of the run's job is running, the
  // folder contains a file with the address of server 0; this object queries
  // the job's status at this address.
  RunView(std::string folder, Security security);
  // Returns a view of the job whose coordinator is at `address` (host:port).
  // The view fetches the run's records from the coordinator instead of reading
  // them from the run's folder.
  static std::unique_ptr<RunView> OfCoordinator(const std::string& address,
                                                const Security& security);

  // Returns the entry of the run in the list of runs: name, path, state, step,
  // number of steps, and others. "problem" is the reason why records cannot be
  // fetched from the coordinator, or empty.
  nlohmann::ordered_json Overview();

  // Returns the values of the lines of metrics.jsonl with `from` <= step <=
  // `to`, for charts. Combines the lines into at most `points` groups of
  // consecutive lines. Each group has its last step, and the mean, the minimum
  // and the maximum of each field. "newest" contains the values of the last of
  // these lines. "evaluation" contains at most `points` of the evaluations in
  // this range.
  nlohmann::ordered_json Series(int64_t from, int64_t to, int points);

  // Returns up to `count` lines of metrics.jsonl with `from` <= step <= `to`,
  // unchanged, at equal distances in the file. Always includes the last of
  // these lines. Omits the lines of evaluations.
  nlohmann::ordered_json Lines(int64_t from, int64_t to, int count);

  // Returns the newest status of the job, its age in seconds, the contents of
  // summary.json, and the bytes that each process is expected to send and
  // receive in each step. The expected bytes depend on the numbers of
  // processes, which are taken from the status while the job runs, and from
  // summary.json afterwards.
  nlohmann::ordered_json Status();

  // Returns the text of the job file, and the path and the value of each field
  // in it.
  nlohmann::ordered_json Job() const;

  // Returns up to `count` of the newest lines of the log of server 0, and the
  // text that the trained model has generated (sample.txt), or null if there is
  // none. In a view that OfCoordinator has created, both the lines and the text
  // are null.
  nlohmann::ordered_json Log(int count) const;

  // Returns up to `count` of the newest events, oldest first; see NewestEvents.
  // A view that OfCoordinator has created has at most 256 events.
  nlohmann::ordered_json Events(int count) const;

 private:
  RunView(std::string folder, Security security,
          std::unique_ptr<RemoteRecords> remote);
  void Update();
  // Returns true if the coordinator has answered a query of the status in the
  // last few seconds.
  bool Live() const;
  // Returns the contents of the run's summary.json, or null if there is no such
  // file.
  nlohmann::ordered_json Summary() const;
  // Returns the run's job, as ResolveJob returns it, or an error if the job is
  // missing or invalid.
  absl::StatusOr<JobSpec> ResolvedJob() const;

  const std::string folder_;  // Empty in a view of OfCoordinator.
  const Security security_;
  std::string coordinator_;               // The address that poller_ queries.
  std::unique_ptr<StatusPoller> poller_;  // Null if there is no address.
  const std::unique_ptr<RemoteRecords> remote_;  // Null without OfCoordinator.
  MetricsIndex index_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_RUN_VIEW_H_
