// Decides which processes of a job are restarted.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_RESTART_POLICY_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_RESTART_POLICY_H_

#include <map>
#include <string>

namespace tributary {

// Counts the restarts of a job's processes, and how often in a row each process
// has failed at its start: before it reported kStepNotice (common/os/logger.h).
// A process that has failed at its start kMostFailuresAtStart times in the same
// way would fail again, so it is not restarted. Not thread-safe.
class RestartPolicy {
 public:
  static constexpr int kMostFailuresAtStart = 3;

  // At most `most_restarts` restarts of all processes together are allowed.
  explicit RestartPolicy(int most_restarts) : most_restarts_(most_restarts) {}

  // The process with this name has reported kStepNotice.
  void OnStepNotice(const std::string& name) { starts_[name].past = true; }
  // Returns true if the process has reported kStepNotice since its last start.
  bool IsPastStart(const std::string& name) const;
  // The process with this name has failed; `wait_status` is as returned by
  // waitpid. Call it once for each failure, before Restart.
  void OnFailure(const std::string& name, int wait_status);
  // Returns true if the process has failed at its start too often in a row.
  bool FailsAtStart(const std::string& name) const;
  // Counts a restart of the process and returns true, or returns false if the
  // process must not be restarted.
  bool Restart(const std::string& name);

  int restarts() const { return restarts_; }
  int most_restarts() const { return most_restarts_; }

 private:
  struct Start {
    bool past = false;  // See IsPastStart.
    int failures = 0;   // Number of equal failures in a row at the start.
    int last_kind = 0;  // The signal, or the exit status, of these failures.
  };

  const int most_restarts_;
  int restarts_ = 0;
  std::map<std::string, Start> starts_;  // By the name of the process.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_RESTART_POLICY_H_
