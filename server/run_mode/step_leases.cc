#include "server/run_mode/step_leases.h"

#include <algorithm>

namespace tributary {
namespace {

// Largest number of open requests per worker. Tributary's own workers have at
// most three.
constexpr int64_t kMaxRequests = 64;

}  // namespace

bool StepLeases::Request(int64_t worker) {
  if (std::count(requests_.begin(), requests_.end(), worker) >= kMaxRequests) {
    return false;
  }
  requests_.push_back(worker);
  return true;
}

void StepLeases::Complete(int64_t step) {
  leased_.erase(step);
  returned_.erase(step);
}

void StepLeases::Remove(int64_t worker) {
  requests_.erase(std::remove(requests_.begin(), requests_.end(), worker),
                  requests_.end());
  for (auto it = leased_.begin(); it != leased_.end();) {
    if (it->second == worker) {
      returned_.insert(it->first);
      it = leased_.erase(it);
    } else {
      ++it;
    }
  }
}

std::vector<std::pair<int64_t, int64_t>> StepLeases::Grant() {
  std::vector<std::pair<int64_t, int64_t>> granted;
  while (!requests_.empty() && (!returned_.empty() || next_ < limit_)) {
    int64_t step = next_;
    if (returned_.empty()) {
      ++next_;
    } else {
      step = *returned_.begin();
      returned_.erase(returned_.begin());
    }
    leased_[step] = requests_.front();
    granted.emplace_back(requests_.front(), step);
    requests_.pop_front();
  }
  return granted;
}

}  // namespace tributary
