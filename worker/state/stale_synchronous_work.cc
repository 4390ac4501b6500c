#include "worker/state/stale_synchronous_work.h"

#include "common/base/monotonic_clock.h"

namespace tributary {

bool StaleSynchronousWork::DecideTraining(int64_t version, Task* task) const {
  for (int64_t step = version; step <= version + staleness_; ++step) {
    // Steps from here on start from weights that must be evaluated first.
    if (step > version && EvaluationDue(step)) return false;
    if (AssignedMicroBatches(step, task)) return true;
  }
  return false;
}

bool StaleSynchronousWork::MustGiveUp(const Task& task) const {
  return over() || CompleteVersion() > task.version;
}

void StaleSynchronousWork::OnTaskBegin(const Task& task) {
  BoundedStalenessWork::OnTaskBegin(task);
  begin_ = MonotonicNow();
  patience_end_ = absl::InfiniteFuture();
  waited_ = absl::ZeroDuration();
}

void StaleSynchronousWork::MarkDone(const Task& task) {
  if (task.kind == Task::Kind::kTrain) {
    absl::MutexLock lock(&mu_);
    computing_ = MonotonicNow() - begin_ - waited_;
  }
  BoundedStalenessWork::MarkDone(task);
}

absl::Time StaleSynchronousWork::OnWaitBegin() {
  const absl::Time now = MonotonicNow();
  if (patience_end_ == absl::InfiniteFuture()) {
    patience_end_ = now + patience_ * computing_;
  }
  if (threads_waiting_++ == 0) waiting_since_ = now;
  return patience_end_;
}

void StaleSynchronousWork::OnWaitEnd() {
  if (--threads_waiting_ == 0) waited_ += MonotonicNow() - waiting_since_;
}

}  // namespace tributary
