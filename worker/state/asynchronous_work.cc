#include "worker/state/asynchronous_work.h"

#include <numeric>

namespace tributary {
namespace {

// One step in flight to the servers, one to compute, and one to read ahead.
constexpr int kStepLeases = 3;

}  // namespace

void AsynchronousWork::AddStepLease(int64_t step) {
  absl::MutexLock lock(&mu_);
  if (asked_ > 0) --asked_;
  step_leases_.try_emplace(step);
}

void AsynchronousWork::MarkDone(const Task& task) {
  if (task.kind == Task::Kind::kTrain) {
    absl::MutexLock lock(&mu_);
    for (int& count : unanswered_) ++count;
  }
  BoundedStalenessWork::MarkDone(task);
}

void AsynchronousWork::SetOutcome(const Outcome& outcome) {
  absl::MutexLock lock(&mu_);
  --unanswered_[outcome.chunk()];
  const auto found = step_leases_.find(outcome.step());
  if (found == step_leases_.end()) return;
  StepLease& lease = found->second;
  lease.refused |= outcome.refused();
  if (++lease.answered < layout().chunk_count()) return;
  if (lease.refused) {
    lease = StepLease();
  } else {
    step_leases_.erase(found);
  }
}

int64_t AsynchronousWork::WaitingFrom(int64_t step) const {
  for (auto it = step_leases_.lower_bound(step); it != step_leases_.end();
       ++it) {
    if (it->second.waiting) return it->first;
  }
  return -1;
}

bool AsynchronousWork::DecideTraining(int64_t, Task* task) const {
  // Request first, so that the next step is available when it is needed.
  if (static_cast<int>(step_leases_.size()) + asked_ < kStepLeases) {
    task->kind = Task::Kind::kRequestStepLease;
    return true;
  }
  const int64_t step = WaitingFrom(0);
  if (step < 0) return false;
  task->kind = Task::Kind::kTrain;
  task->version = step;
  task->next_step = WaitingFrom(step + 1);
  task->items.resize(micro_batches_);
  std::iota(task->items.begin(), task->items.end(), 0);
  return true;
}

void AsynchronousWork::OnTaskBegin(const Task& task) {
  BoundedStalenessWork::OnTaskBegin(task);
  if (task.kind == Task::Kind::kRequestStepLease) ++asked_;
  if (task.kind == Task::Kind::kTrain) {
    step_leases_[task.version].waiting = false;
  }
}

bool AsynchronousWork::MustGiveUp(const Task&) const { return over(); }

}  // namespace tributary
