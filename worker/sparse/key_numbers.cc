#include "worker/sparse/key_numbers.h"

#include "common/sparse/key_hash.h"
#include "common/sparse/key_order.h"

namespace tributary {

KeyNumbers::KeyNumbers(size_t most) {
  size_t slots = 16;
  while (slots < 2 * most) slots *= 2;
  slots_.assign(slots, -1);
}

size_t KeyNumbers::SlotOf(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = KeyHash(key) & mask;
  while (slots_[slot] >= 0 && keys_[slots_[slot]] != key) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

int32_t KeyNumbers::Of(uint64_t key) {
  int32_t& number = slots_[SlotOf(key)];
  if (number < 0) {
    number = static_cast<int32_t>(keys_.size());
    keys_.push_back(key);
  }
  return number;
}

std::vector<int32_t> KeyNumbers::Sort() {
  KeyOrder order;
  const std::vector<KeyOrder::PlacedKey>& sorted = order.Sort(keys_);
  std::vector<int32_t> place(keys_.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    keys_[i] = sorted[i].key;
    place[sorted[i].place] = static_cast<int32_t>(i);
  }
  for (int32_t& slot : slots_) {
    if (slot >= 0) slot = place[slot];
  }
  return place;
}

}  // namespace tributary
