// Warns of conditions for which a user may want to stop a job.
#ifndef TRIBUTARY_SERVER_PROGRESS_HEALTH_WATCH_H_
#define TRIBUTARY_SERVER_PROGRESS_HEALTH_WATCH_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metrics_page.h"
#include "common/os/logger.h"
#include "server/progress/health_monitor.h"

namespace tributary {

// Passes the lines of metrics.jsonl to a HealthMonitor, which raises alarms,
// and raises an alarm if the disk is nearly full. Logs each alarm as a warning,
// which `train` shows on the terminal. Thread-safe.
class HealthWatch {
 public:
  struct Hooks {
    // Called with each alarm, after it was logged. May be null.
    std::function<void(int64_t step, const HealthMonitor::Alarm&)> on_alarm;
    // Returns the capacity and the free space of the disk that contains the
    // folder.
    std::function<std::filesystem::space_info(const std::string&)> space =
        &SpaceOf;
  };

  // `log` must outlive this object.
  HealthWatch(std::string directory, Logger* log)
      : HealthWatch(std::move(directory), log, Hooks()) {}
  HealthWatch(std::string directory, Logger* log, Hooks hooks);

  // Call this when an attempt begins. Clears all alarms of the HealthMonitor,
  // because the attempt may compute some steps again. `steps` is the number of
  // steps of the job.
  void Begin(int64_t steps) ABSL_LOCKS_EXCLUDED(mu_);
  // Examines the next line of metrics.jsonl and, now and then, how full the
  // disk is, and logs the alarms that they raise. Blocks on the disk.
  void Add(const std::string& line) ABSL_LOCKS_EXCLUDED(mu_);

  // Adds the state of each alarm to `*page`.
  void AddMetrics(MetricsPage* page) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Returns the capacity and the free space that the file system reports. If
  // the file system returns an error, the capacity is 0.
  static std::filesystem::space_info SpaceOf(const std::string& folder);
  void CheckDisk(std::vector<HealthMonitor::Alarm>* alarms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string directory_;
  Logger* const log_;
  const Hooks hooks_;
  mutable absl::Mutex mu_;
  HealthMonitor monitor_ ABSL_GUARDED_BY(mu_);
  absl::Time disk_checked_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool disk_low_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_HEALTH_WATCH_H_
