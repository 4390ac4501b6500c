#include "worker/training/lane_items.h"

#include <algorithm>
#include <utility>

namespace tributary {

LaneItems::LaneItems(std::vector<int64_t> items, int lanes, Deal deal)
    : items_(std::move(items)),
      own_(std::min(items_.size(), static_cast<size_t>(lanes))),
      next_(deal == Deal::kAll ? items_.size() : own_.size()) {
  for (size_t lane = 0; lane < own_.size(); ++lane) {
    Own& own = own_[lane];
    own.begin = next_ * lane / own_.size();
    own.end = next_ * (lane + 1) / own_.size();
    own.next = own.begin;
  }
}

std::vector<int64_t> LaneItems::DealtTo(int lane) const {
  const auto first = items_.begin();
  return {first + own_[lane].begin, first + own_[lane].end};
}

std::vector<int64_t> LaneItems::InOrder() const {
  std::vector<int64_t> order;
  for (size_t i = 0; order.size() < items_.size(); ++i) {
    const size_t before = order.size();
    for (const Own& own : own_) {
      if (own.begin + i < own.end) order.push_back(items_[own.begin + i]);
    }
    if (order.size() > before) continue;
    // The rest is no lane's.
    order.insert(order.end(), items_.begin() + before, items_.end());
  }
  return order;
}

std::optional<int64_t> LaneItems::Take(int lane) {
  const std::optional<int64_t> item = Peek(lane);
  own_[lane].reserved = kNone;
  return item;
}

std::optional<int64_t> LaneItems::Peek(int lane) {
  Own& own = own_[lane];
  if (own.reserved == kNone) {
    own.reserved = own.next < own.end ? own.next++ : next_++;
  }
  if (own.reserved >= items_.size()) return std::nullopt;
  return items_[own.reserved];
}

}  // namespace tributary
