#include "deploy/launcher/restart_policy.h"

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
  if (wait_status != start.last_wait_status) start.failures = 0;
  start.last_wait_status = wait_status;
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
