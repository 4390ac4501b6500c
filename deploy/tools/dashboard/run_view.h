// What the dashboard shows of one run. It comes from the files in the run's
// folder and, while the job runs, from the replies of its coordinator.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RUN_VIEW_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RUN_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/os/untrusted_folder.h"
#include "common/transport/security.h"
#include "deploy/launch/job/status_poller.h"
#include "deploy/tools/dashboard/metrics_index.h"
#include "deploy/tools/dashboard/remote_records.h"
#include "deploy/tools/runs/run_entry.h"
#include "deploy/tools/runs/run_watch.h"
#include "deploy/tools/status/run_address.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/job.pb.h"

namespace tributary {

// Returns the key of the run in `folder`; see RunView::key.
std::string RunKeyOf(const std::string& folder);

// Provides the data that the dashboard shows of one run. Every public method
// returns a JSON object; it may read files, but does not wait for the network.
// Not thread-safe.
class RunView {
 public:
  // Shows the run in `folder`; see RunWatch.
  RunView(UntrustedFolder folder, std::shared_ptr<const RunAddressRules> rules);
  // Returns a view of the job whose coordinator is at `address` (host:port).
  // The view fetches the run's records from the coordinator instead of reading
  // them from the run's folder.
  static std::unique_ptr<RunView> OfCoordinator(const std::string& address,
                                                const Security& security);

  // Returns a short text, safe in addresses, that identifies the run: it
  // depends on the path of the run's folder, or on the coordinator's address,
  // but not on the other runs.
  const std::string& key() const { return key_; }

  // Returns the entry of the run in lists of runs.
  RunEntry Entry();
  // Returns the entry of the run in the list of runs: EntryJson, and the number
  // of lines of metrics.jsonl in the index of the views; 0 if there is no
  // index. "problem" is the reason why the coordinator is not queried, or why
  // records cannot be fetched from it, or empty.
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
  // these lines. Omits the lines of evaluations. Returns fewer lines if they
  // are so long that the reply would have more than a few megabytes.
  nlohmann::ordered_json Lines(int64_t from, int64_t to, int count);

  // Returns, in the same way, what the processes use (see ResourceUse), from
  // the lines of metrics.jsonl that contain it: objects with "step", "seconds"
  // and "resources".
  nlohmann::ordered_json Resources(int64_t from, int64_t to, int count);

  // Returns the metrics of the whole run; see MetricsIndex::Csv.
  std::string Csv();

  // Returns the newest status of the job, its age in seconds, the contents of
  // summary.json, and the bytes that each process is expected to send and
  // receive in each step. The expected bytes depend on the numbers of
  // processes, which are taken from the status while the job runs, and from
  // summary.json afterwards.
  nlohmann::ordered_json Status();

  // Returns the text of the job file, and the path and the value of each field
  // in it (FieldsOf).
  nlohmann::ordered_json Job() const;

  // Returns the logs of the run's processes, up to `count` of the newest
  // entries of the log `name`, and the text that the trained model has
  // generated (sample.txt), or null if there is none. In a view that
  // OfCoordinator has created, both the entries and the text are null.
  nlohmann::ordered_json Log(const std::string& name, int count) const;

  // Returns up to `count` of the newest events, oldest first; see NewestEvents.
  // A view that OfCoordinator has created has at most 256 events.
  nlohmann::ordered_json Events(int count) const;

  // Waits, but not beyond `deadline`, for the reply to the query of the status
  // that is in flight.
  void AwaitStatus(absl::Time deadline) const;

  // Returns the number of lines of metrics.jsonl in memory.
  size_t indexed_lines() const { return index_.lines().size(); }
  // Releases the memory of the index. The next call that needs the index reads
  // metrics.jsonl again.
  void DropIndex();

 private:
  RunView(std::unique_ptr<RunWatch> watch,
          std::unique_ptr<RemoteRecords> remote,
          std::unique_ptr<StatusPoller> poller,
          std::function<absl::StatusOr<InputFile>()> open_metrics,
          const std::string& path);
  // Returns up to `count` of these lines, at equal distances, and always the
  // last one; fewer if their texts are too large.
  std::vector<nlohmann::ordered_json> ReadLines(
      const std::vector<const MetricsIndex::Line*>& found, int count) const;
  // Starts to fetch the newest status and records.
  void Update();
  // Also reads the new lines of metrics.jsonl.
  void UpdateIndex();
  // Returns the object that queries the coordinator; may be null.
  const StatusPoller* poller() const;
  RunEntry RemoteEntry() const;
  // Returns true if the coordinator has answered a query of the status in the
  // last few seconds.
  bool Live() const;
  // Returns the contents of the run's summary.json, or null if there is no such
  // file.
  nlohmann::ordered_json Summary() const;
  // Returns the text of the run's job file.
  absl::StatusOr<std::string> JobText() const;
  // Returns the run's job, as ResolveJob returns it, or an error if the job is
  // missing or invalid.
  absl::StatusOr<JobSpec> ResolvedJob() const;

  const std::string key_;
  std::unique_ptr<RunWatch> watch_;  // Null in a view of OfCoordinator.
  // Null except in a view of OfCoordinator.
  std::unique_ptr<RemoteRecords> remote_;
  std::unique_ptr<StatusPoller> remote_poller_;
  std::string coordinator_;  // The address of remote_.
  MetricsIndex index_;
  bool indexed_ = false;  // Whether a view needs the index.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RUN_VIEW_H_
