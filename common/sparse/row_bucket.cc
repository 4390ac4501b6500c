#include "common/sparse/row_bucket.h"

#include <cstddef>

namespace tributary {
namespace {

constexpr size_t kFewestSlots = 16;

}  // namespace

int64_t RowBucket::FindSlot(uint64_t key, uint64_t hash) const {
  if (slots_.empty()) return -1;
  const auto mask = static_cast<int64_t>(slots_.size() - 1);
  const uint32_t tag = Tag(hash);
  for (int64_t slot = Home(hash);; slot = (slot + 1) & mask) {
    const uint32_t entry = slots_[slot];
    if (entry == 0) return -1;
    if ((entry & ~kRowMask) == tag && Row(entry & kRowMask)->key == key) {
      return slot;
    }
  }
}

const RowHeader* RowBucket::Candidate(uint64_t hash) const {
  if (slots_.empty()) return nullptr;
  const auto mask = static_cast<int64_t>(slots_.size() - 1);
  const uint32_t tag = Tag(hash);
  for (int64_t slot = Home(hash);; slot = (slot + 1) & mask) {
    const uint32_t entry = slots_[slot];
    if (entry == 0) return nullptr;
    if ((entry & ~kRowMask) == tag) return Row(entry & kRowMask);
  }
}

RowHeader* RowBucket::Insert(uint64_t key, uint64_t hash) {
  uint32_t number = 0;
  if (!free_.empty()) {
    number = free_.back();
  } else {
    if (numbers_ == kMaxRows) return nullptr;
    if (numbers_ % kSlabRows == 0) {
      char* const slab = memory_->Take();
      if (slab == nullptr) return nullptr;
      slabs_.push_back(slab);
    }
    number = numbers_ + 1;
  }
  if (8 * (size_ + 1) > 7 * static_cast<int64_t>(slots_.size())) Grow();
  if (!free_.empty()) {
    free_.pop_back();
  } else {
    ++numbers_;
  }
  const auto mask = static_cast<int64_t>(slots_.size() - 1);
  int64_t slot = Home(hash);
  while (slots_[slot] != 0) slot = (slot + 1) & mask;
  slots_[slot] = number | Tag(hash);
  ++size_;
  RowHeader* const row = Row(number);
  row->key = key;
  return row;
}

void RowBucket::Remove(uint64_t key, uint64_t hash) {
  int64_t hole = FindSlot(key, hash);
  if (hole < 0) return;
  free_.push_back(slots_[hole] & kRowMask);
  --size_;
  // Moves entries back whose search passes the hole (Knuth, TAOCP 6.4, R).
  const auto mask = static_cast<int64_t>(slots_.size() - 1);
  for (int64_t slot = (hole + 1) & mask; slots_[slot] != 0;
       slot = (slot + 1) & mask) {
    const int64_t home = Home(KeyHash(Row(slots_[slot] & kRowMask)->key));
    if (((slot - home) & mask) >= ((slot - hole) & mask)) {
      slots_[hole] = slots_[slot];
      hole = slot;
    }
  }
  slots_[hole] = 0;
}

void RowBucket::Grow() {
  std::vector<uint32_t> old(slots_.empty() ? kFewestSlots : 2 * slots_.size());
  old.swap(slots_);
  const auto mask = static_cast<int64_t>(slots_.size() - 1);
  for (const uint32_t entry : old) {
    if (entry == 0) continue;
    int64_t slot = Home(KeyHash(Row(entry & kRowMask)->key));
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = entry;
  }
}

}  // namespace tributary
