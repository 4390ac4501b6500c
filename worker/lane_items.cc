#include "worker/lane_items.h"

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
