#include "worker/lane_items.h"

#include <algorithm>
#include <utility>

namespace tributary {

LaneItems::LaneItems(std::vector<int64_t> items, int lanes)
    : items_(std::move(items)),
      reserved_(std::min(items_.size(), static_cast<size_t>(lanes))),
      next_(reserved_.size()) {
  for (size_t lane = 0; lane < reserved_.size(); ++lane) reserved_[lane] = lane;
}

std::optional<int64_t> LaneItems::Take(int lane) {
  const std::optional<int64_t> item = Peek(lane);
  reserved_[lane] = kNone;
  return item;
}

std::optional<int64_t> LaneItems::Peek(int lane) {
  size_t& place = reserved_[lane];
  if (place == kNone) place = next_++;
  if (place >= items_.size()) return std::nullopt;
  return items_[place];
}

}  // namespace tributary
