#include "common/sparse/rows_before.h"

#include <algorithm>
#include <numeric>

namespace tributary {

void RowsBefore::Add(uint64_t key, bool existed, const float* values) {
  other_keys_.push_back(key);
  other_existed_.push_back(existed);
  other_values_.insert(other_values_.end(), values, values + dim_);
}

void RowsBefore::Finish() {
  std::vector<size_t> order(other_keys_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return other_keys_[a] < other_keys_[b];
  });
  std::vector<uint64_t> keys;
  std::vector<bool> existed;
  std::vector<float> values;
  keys.reserve(order.size());
  existed.reserve(order.size());
  values.reserve(other_values_.size());
  for (const size_t place : order) {
    keys.push_back(other_keys_[place]);
    existed.push_back(other_existed_[place]);
    const auto begin =
        other_values_.begin() + static_cast<ptrdiff_t>(place) * dim_;
    values.insert(values.end(), begin, begin + dim_);
  }
  other_keys_ = std::move(keys);
  other_existed_ = std::move(existed);
  other_values_ = std::move(values);
}

RowsBefore::State RowsBefore::Reader::Find(uint64_t key, const float** values) {
  // Returns whether `key` is in `keys`, and advances `*place` to where it is or
  // would be.
  const auto find = [key](const std::vector<uint64_t>& keys, size_t* place) {
    // Most keys are near the previous one: the distance is doubled until it is
    // far enough.
    size_t begin = *place, end = begin, distance = 1;
    while (end < keys.size() && keys[end] < key) {
      begin = end + 1;
      end += distance;
      distance *= 2;
    }
    end = std::min(end, keys.size());
    *place = std::lower_bound(keys.begin() + static_cast<ptrdiff_t>(begin),
                              keys.begin() + static_cast<ptrdiff_t>(end), key) -
             keys.begin();
    return *place < keys.size() && keys[*place] == key;
  };
  if (find(rows_->keys_, &place_)) {
    if (!rows_->existed_[place_]) return State::kAbsent;
    *values = rows_->values_ + static_cast<int64_t>(place_) * rows_->dim_;
    return State::kPresent;
  }
  if (find(rows_->other_keys_, &other_)) {
    if (!rows_->other_existed_[other_]) return State::kAbsent;
    *values = rows_->other_values_.data() +
              static_cast<int64_t>(other_) * rows_->dim_;
    return State::kPresent;
  }
  return State::kUnchanged;
}

}  // namespace tributary
