#include "library/handover.h"

#include <algorithm>
#include <utility>

#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

absl::Status Closed() {
  return absl::CancelledError("the program has left the job");
}

// True if a program that was made for `a` can continue with `b`, the job of a
// later attempt.
bool SameProgram(const JobSpec& a, const JobSpec& b) {
  return a.model().SerializeAsString() == b.model().SerializeAsString() &&
         a.data().SerializeAsString() == b.data().SerializeAsString();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ParameterDeclarations>> Handover::Offer(
    const JobSpec& job, const JobInfo& info) {
  absl::MutexLock lock(&mu_);
  if (job_.has_value() && !SameProgram(*job_, job)) {
    return absl::FailedPreconditionError(
        "the job has another model or other data than before: start this "
        "worker again");
  }
  if (!job_.has_value()) {
    job_ = job;
    info_ = info;
  }
  const auto answered = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return answer_.has_value() || closed_;
  };
  tributary::Await(&mu_, absl::Condition(&answered));
  if (closed_) return Closed();
  return *answer_;
}

absl::Status Handover::Do(Work* work) {
  {
    absl::MutexLock lock(&mu_);
    queue_.push_back(work);
  }
  if (work->observer != nullptr) work->observer->DeviceBusy();
  absl::MutexLock lock(&mu_);
  const auto done = [this, work]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return work->done.has_value() || closed_;
  };
  tributary::Await(&mu_, absl::Condition(&done));
  if (work->done.has_value()) return *work->done;
  queue_.erase(std::find(queue_.begin(), queue_.end(), work));
  return Closed();
}

void Handover::End(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  end_ = status;
}

std::optional<JobInfo> Handover::AwaitJob() {
  absl::MutexLock lock(&mu_);
  const auto known = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return job_.has_value() || end_.has_value();
  };
  tributary::Await(&mu_, absl::Condition(&known));
  if (!job_.has_value()) return std::nullopt;
  return info_;
}

void Handover::Answer(
    absl::StatusOr<std::shared_ptr<const ParameterDeclarations>> answer) {
  absl::MutexLock lock(&mu_);
  answer_ = std::move(answer);
}

Work* Handover::Await() {
  absl::MutexLock lock(&mu_);
  const auto offered = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !queue_.empty() || end_.has_value();
  };
  tributary::Await(&mu_, absl::Condition(&offered));
  return end_.has_value() ? nullptr : queue_.front();
}

void Handover::Done(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  // Close may have removed the item.
  if (queue_.empty()) return;
  queue_.front()->done = status;
  queue_.pop_front();
}

void Handover::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
}

absl::Status Handover::end() const {
  absl::MutexLock lock(&mu_);
  return end_.value_or(absl::OkStatus());
}

bool Handover::ended() const {
  absl::MutexLock lock(&mu_);
  return end_.has_value();
}

}  // namespace tributary
