#include "worker/training/threads/compute_thread_items.h"

#include <algorithm>
#include <utility>

#include "common/base/monotonic_clock.h"

namespace tributary {

ComputeThreadItems::ComputeThreadItems(std::vector<int64_t> items, int threads,
                                       Schedule schedule)
    : items_(std::move(items)),
      schedule_(schedule),
      own_(std::min(items_.size(), static_cast<size_t>(threads))),
      next_(schedule == Schedule::kStatic    ? items_.size()
            : schedule == Schedule::kDynamic ? own_.size()
                                             : 0) {
  for (size_t thread = 0; thread < own_.size(); ++thread) {
    Own& own = own_[thread];
    own.begin = next_ * thread / own_.size();
    own.end = next_ * (thread + 1) / own_.size();
    own.next = own.begin;
  }
}

std::vector<int64_t> ComputeThreadItems::AssignedTo(int thread) const {
  const auto first = items_.begin();
  return {first + own_[thread].begin, first + own_[thread].end};
}

std::vector<int64_t> ComputeThreadItems::InOrder() const {
  std::vector<int64_t> order;
  for (size_t i = 0; order.size() < items_.size(); ++i) {
    const size_t before = order.size();
    for (const Own& own : own_) {
      if (own.begin + i < own.end) order.push_back(items_[own.begin + i]);
    }
    if (order.size() > before) continue;
    // The remaining items belong to no thread.
    order.insert(order.end(), items_.begin() + before, items_.end());
  }
  return order;
}

std::optional<int64_t> ComputeThreadItems::Take(int thread) {
  if (schedule_ == Schedule::kInOrder) {
    Started(thread);
    absl::MutexLock lock(&mu_);
    const auto free = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return starting_ == kNobody;
    };
    Await(&mu_, absl::Condition(&free));
    starting_ = thread;
  }
  const std::optional<int64_t> item = Peek(thread);
  own_[thread].reserved = kNone;
  return item;
}

void ComputeThreadItems::Started(int thread) {
  if (schedule_ != Schedule::kInOrder) return;
  absl::MutexLock lock(&mu_);
  if (starting_ == thread) starting_ = kNobody;
}

std::optional<int64_t> ComputeThreadItems::Peek(int thread) {
  Own& own = own_[thread];
  if (own.reserved == kNone) {
    own.reserved = own.next < own.end ? own.next++ : next_++;
  }
  if (own.reserved >= items_.size()) return std::nullopt;
  return items_[own.reserved];
}

}  // namespace tributary
