// Reports the progress of a job to Kubeflow Trainer, which shows it in the
// status of the TrainJob.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_KUBEFLOW_PROGRESS_REPORTER_H_
#define TRIBUTARY_DEPLOY_LAUNCH_KUBEFLOW_PROGRESS_REPORTER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/os/logger.h"
#include "common/transport/security.h"
#include "deploy/flags/environment.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Returns `status` as the JSON object that Kubeflow Trainer expects. `done` is
// true if all steps are complete. The progress is then 100 %, and otherwise at
// most 99 %.
std::string FormatTrainerStatus(const StatusReply& status, bool done,
                                absl::Time now);

// Sends the status of a job to Kubeflow Trainer at regular intervals, on a
// thread of its own. A failure to report never affects the job. The first
// failure is logged as a warning, and later ones are ignored. Not thread-safe.
class ProgressReporter {
 public:
  struct Options {
    // Minimum time between two reports, as Kubeflow Trainer requires. The last
    // report may follow earlier.
    absl::Duration interval = absl::Seconds(5);
    // Returns the newest status of the job; its phase is PHASE_UNSPECIFIED if
    // it is not known. Called by the reporter's thread. Must not block.
    std::function<StatusReply()> status;
    // Sends a report to Kubeflow Trainer. May block.
    std::function<absl::Status(const std::string& json)> post;
    // Maximum time for which Finish waits for `post`.
    absl::Duration patience = absl::Seconds(5);
    // Receives a warning about the first failure to report. Must outlive the
    // ProgressReporter.
    Logger* log = nullptr;
  };

  explicit ProgressReporter(const Options& options);
  // Calls Finish(false), which ends reporting.
  ~ProgressReporter();
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  // Ends reporting. If `done` is true, first reports that the job is done.
  // Blocks for at most Options::patience. A report that takes longer continues
  // on the reporter's thread, which is then detached: the process may exit
  // while this thread still runs. Only the first call has an effect.
  void Finish(bool done);

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;
  std::thread thread_;
};

// Returns a reporter that queries the status from the coordinator at
// `coordinator`, host:port. Returns null if `environment` does not name a
// server of Kubeflow Trainer. `log` must outlive the result.
std::unique_ptr<ProgressReporter> MakeProgressReporter(
    const Environment& environment, const std::string& coordinator,
    const Security& security, Logger* log);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_KUBEFLOW_PROGRESS_REPORTER_H_
