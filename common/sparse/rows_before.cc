#include "common/sparse/rows_before.h"

#include <algorithm>
#include <numeric>

namespace tributary {

void RowsBefore::AddRemoved(uint64_t key, const float* values) {
  removed_keys_.push_back(key);
  removed_values_.insert(removed_values_.end(), values, values + dim_);
}

void RowsBefore::Finish() {
  std::vector<size_t> order(removed_keys_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return removed_keys_[a] < removed_keys_[b];
  });
  std::vector<uint64_t> keys;
  std::vector<float> values;
  keys.reserve(order.size());
  values.reserve(removed_values_.size());
  for (const size_t place : order) {
    keys.push_back(removed_keys_[place]);
    const auto begin =
        removed_values_.begin() + static_cast<ptrdiff_t>(place) * dim_;
    values.insert(values.end(), begin, begin + dim_);
  }
  removed_keys_ = std::move(keys);
  removed_values_ = std::move(values);
}

RowsBefore::State RowsBefore::Reader::Find(uint64_t key, const float** values) {
  // Returns whether `key` is in `keys`, and advances `*place` to where it is or
  // would be.
  const auto find = [key](const std::vector<uint64_t>& keys, size_t* place) {
    *place = std::lower_bound(keys.begin() + static_cast<ptrdiff_t>(*place),
                              keys.end(), key) -
             keys.begin();
    return *place < keys.size() && keys[*place] == key;
  };
  if (find(rows_->gradients_->keys, &place_)) {
    if (!rows_->existed_[place_]) return State::kAbsent;
    *values = rows_->values_.get() + static_cast<int64_t>(place_) * rows_->dim_;
    return State::kPresent;
  }
  if (find(rows_->removed_keys_, &removed_)) {
    *values = rows_->removed_values_.data() +
              static_cast<int64_t>(removed_) * rows_->dim_;
    return State::kPresent;
  }
  return State::kUnchanged;
}

}  // namespace tributary
