#include "worker/training/stages/part_receiver.h"

#include <utility>

#include "common/base/monotonic_clock.h"

namespace tributary {

PartReceiver::PartReceiver(int routes) {
  for (int i = 0; i < routes; ++i) {
    threads_.push_back(std::make_unique<ThreadPool>(1));
  }
}

void PartReceiver::Add(const std::function<absl::Status(int route)>& receive) {
  const int routes = static_cast<int>(threads_.size());
  const auto result = std::make_shared<Result>();
  result->missing = routes;
  {
    absl::MutexLock lock(&mu_);
    running_ += routes;
    results_.push_back(result);
  }
  for (int route = 0; route < routes; ++route) {
    threads_[route]->Run([this, receive, route, result] {
      const absl::Status status = receive(route);
      absl::MutexLock lock(&mu_);
      result->status.Update(status);
      --result->missing;
      --running_;
    });
  }
}

std::optional<absl::Status> PartReceiver::Take(bool wait) {
  absl::MutexLock lock(&mu_);
  const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !results_.empty() && results_.front()->missing == 0;
  };
  if (wait) Await(&mu_, absl::Condition(&there));
  if (!there()) return std::nullopt;
  absl::Status result = std::move(results_.front()->status);
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
