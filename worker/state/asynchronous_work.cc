#include "worker/state/asynchronous_work.h"

#include <numeric>

namespace tributary {
namespace {

// One on its way to the servers, one to compute, one to read ahead.
constexpr int kClaims = 3;

}  // namespace

void AsynchronousWork::SetClaimed(int64_t step) {
  absl::MutexLock lock(&mu_);
  if (asked_ > 0) --asked_;
  claims_.try_emplace(step);
}

void AsynchronousWork::MarkDone(const Task& task) {
  if (task.kind == Task::Kind::kTrain) {
    absl::MutexLock lock(&mu_);
    for (int& count : unanswered_) ++count;
  }
  LooseWork::MarkDone(task);
}

void AsynchronousWork::SetOutcome(const Outcome& outcome) {
  absl::MutexLock lock(&mu_);
  --unanswered_[outcome.chunk()];
  const auto found = claims_.find(outcome.step());
  if (found == claims_.end()) return;
  Claim& claim = found->second;
  claim.refused |= outcome.refused();
  if (++claim.answered < layout().chunk_count()) return;
  if (claim.refused) {
    claim = Claim();
  } else {
    claims_.erase(found);
  }
}

int64_t AsynchronousWork::WaitingFrom(int64_t step) const {
  for (auto it = claims_.lower_bound(step); it != claims_.end(); ++it) {
    if (it->second.waiting) return it->first;
  }
  return -1;
}

bool AsynchronousWork::DecideTraining(int64_t, Task* task) const {
  // Before anything else, so that the next step is there when it is wanted.
  if (static_cast<int>(claims_.size()) + asked_ < kClaims) {
    task->kind = Task::Kind::kClaim;
    return true;
  }
  const int64_t step = WaitingFrom(0);
  if (step < 0) return false;
  task->kind = Task::Kind::kTrain;
  task->version = step;
  task->next_step = WaitingFrom(step + 1);
  task->items.resize(leaves_);
  std::iota(task->items.begin(), task->items.end(), 0);
  return true;
}

void AsynchronousWork::OnTaskBegin(const Task& task) {
  LooseWork::OnTaskBegin(task);
  if (task.kind == Task::Kind::kClaim) ++asked_;
  if (task.kind == Task::Kind::kTrain) claims_[task.version].waiting = false;
}

bool AsynchronousWork::MustGiveUp(const Task&) const { return over(); }

}  // namespace tributary
