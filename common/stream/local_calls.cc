#include "common/stream/local_calls.h"

#include <utility>
#include <vector>

#include "common/base/monotonic_clock.h"

namespace tributary {

bool LocalCalls::Add(std::shared_ptr<Call> call) {
  absl::MutexLock lock(&mu_);
  if (closed_) return false;
  Call* const key = call.get();
  calls_.emplace(key, std::move(call));
  return true;
}

void LocalCalls::Remove(Call* call) {
  // The last owner destroys the call without the lock.
  std::shared_ptr<Call> removed;
  absl::MutexLock lock(&mu_);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  removed = std::move(found->second);
  calls_.erase(found);
}

void LocalCalls::ShutDown(absl::Duration timeout) {
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return calls_.empty();
  };
  std::vector<std::shared_ptr<Call>> late;
  {
    absl::MutexLock lock(&mu_);
    closed_ = true;
    if (AwaitFor(&mu_, absl::Condition(&none), timeout)) return;
    for (const auto& [key, call] : calls_) late.push_back(call);
  }
  for (const auto& call : late) {
    call->Cancel(absl::UnavailableError("the server has shut down"));
  }
  late.clear();
  absl::MutexLock lock(&mu_);
  Await(&mu_, absl::Condition(&none));
}

}  // namespace tributary
