#include "worker/training/part_receiver.h"

#include <utility>

#include "common/base/monotonic_clock.h"

namespace tributary {

void PartReceiver::Add(std::function<absl::Status()> receive) {
  {
    absl::MutexLock lock(&mu_);
    ++running_;
  }
  thread_.Run([this, receive = std::move(receive)] {
    absl::Status result = receive();
    absl::MutexLock lock(&mu_);
    results_.push_back(std::move(result));
    --running_;
  });
}

std::optional<absl::Status> PartReceiver::Take(bool wait) {
  absl::MutexLock lock(&mu_);
  const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !results_.empty();
  };
  if (wait) Await(&mu_, absl::Condition(&there));
  if (!there()) return std::nullopt;
  absl::Status result = std::move(results_.front());
  results_.pop_front();
  return result;
}

void PartReceiver::Discard() {
  absl::MutexLock lock(&mu_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return running_ == 0;
  };
  Await(&mu_, absl::Condition(&idle));
  results_.clear();
}

}  // namespace tributary
