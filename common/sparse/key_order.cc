#include "common/sparse/key_order.h"

#include <algorithm>
#include <utility>

namespace tributary {

const std::vector<KeyOrder::PlacedKey>& KeyOrder::Sort(
    const std::vector<uint64_t>& keys) {
  order_.resize(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) order_[i] = {keys[i], i};
  // Shorter lists are sorted faster by comparisons.
  constexpr size_t kLeastForRadix = 1024;
  if (keys.size() < kLeastForRadix) {
    std::sort(
        order_.begin(), order_.end(),
        [](const PlacedKey& a, const PlacedKey& b) { return a.key < b.key; });
    return order_;
  }
  // Radix sort, beginning with the last digit.
  constexpr int kDigitBits = 11, kDigits = 6;
  constexpr size_t kValues = size_t{1} << kDigitBits;
  const auto digit = [](uint64_t key, int number) {
    return static_cast<size_t>(key >> number * kDigitBits) % kValues;
  };
  counts_.assign(kDigits * kValues, 0);
  for (const uint64_t key : keys) {
    for (int i = 0; i < kDigits; ++i) ++counts_[i * kValues + digit(key, i)];
  }
  other_.resize(keys.size());
  for (int i = 0; i < kDigits; ++i) {
    size_t* const next = counts_.data() + i * kValues;
    // All keys have this digit in common.
    if (next[digit(keys[0], i)] == keys.size()) continue;
    size_t begin = 0;
    for (size_t value = 0; value < kValues; ++value) {
      begin += std::exchange(next[value], begin);
    }
    for (const PlacedKey& placed : order_) {
      other_[next[digit(placed.key, i)]++] = placed;
    }
    order_.swap(other_);
  }
  return order_;
}

}  // namespace tributary
