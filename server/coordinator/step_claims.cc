#include "server/coordinator/step_claims.h"

#include <algorithm>

namespace tributary {
namespace {

// Of one worker. Ours have three.
constexpr int64_t kMostWishes = 64;

}  // namespace

bool StepClaims::Want(int64_t worker) {
  if (std::count(wishes_.begin(), wishes_.end(), worker) >= kMostWishes) {
    return false;
  }
  wishes_.push_back(worker);
  return true;
}

void StepClaims::Complete(int64_t step) {
  claimed_.erase(step);
  given_back_.erase(step);
}

void StepClaims::Remove(int64_t worker) {
  wishes_.erase(std::remove(wishes_.begin(), wishes_.end(), worker),
                wishes_.end());
  for (auto it = claimed_.begin(); it != claimed_.end();) {
    if (it->second == worker) {
      given_back_.insert(it->first);
      it = claimed_.erase(it);
    } else {
      ++it;
    }
  }
}

std::vector<std::pair<int64_t, int64_t>> StepClaims::Grant() {
  std::vector<std::pair<int64_t, int64_t>> granted;
  while (!wishes_.empty() && (!given_back_.empty() || next_ < limit_)) {
    int64_t step = next_;
    if (given_back_.empty()) {
      ++next_;
    } else {
      step = *given_back_.begin();
      given_back_.erase(given_back_.begin());
    }
    claimed_[step] = wishes_.front();
    granted.emplace_back(wishes_.front(), step);
    wishes_.pop_front();
  }
  return granted;
}

}  // namespace tributary
