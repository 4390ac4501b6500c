#include "deploy/launch/job/restart_policy.h"

#include <sys/wait.h>

namespace tributary {

bool RestartPolicy::IsPastStart(const std::string& name) const {
  const auto start = starts_.find(name);
  return start != starts_.end() && start->second.past;
}

void RestartPolicy::OnFailure(const std::string& name, int wait_status) {
  Start& start = starts_[name];
  if (start.past) {
    start.failures = 0;
    return;
  }
  // Without the flag for a core dump, which may be missing when the disk is
  // full.
  const int kind =
      WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : wait_status;
  if (kind != start.last_kind) start.failures = 0;
  start.last_kind = kind;
  ++start.failures;
}

bool RestartPolicy::FailsAtStart(const std::string& name) const {
  const auto start = starts_.find(name);
  return start != starts_.end() &&
         start->second.failures >= kMostFailuresAtStart;
}

bool RestartPolicy::Restart(const std::string& name) {
  if (restarts_ >= most_restarts_ || FailsAtStart(name)) return false;
  starts_[name].past = false;
  ++restarts_;
  return true;
}

}  // namespace tributary
