#include "common/sparse/cold_index.h"

#include <cstddef>

#include "common/sparse/key_hash.h"

namespace tributary {
namespace {

constexpr size_t kFewestSlots = 16;

}  // namespace

int64_t ColdIndex::FindSlot(uint64_t key, uint64_t hash) const {
  if (slots_.empty()) return -1;
  const auto mask = static_cast<int64_t>(slots_.size() - 1);
  for (int64_t slot = Home(hash); slots_[slot].position != ColdRow::kNone;
       slot = (slot + 1) & mask) {
    if (slots_[slot].key == key) return slot;
  }
  return -1;
}

void ColdIndex::Place(const ColdRow& row) {
  const auto mask = static_cast<int64_t>(slots_.size() - 1);
  int64_t slot = Home(KeyHash(row.key));
  while (slots_[slot].position != ColdRow::kNone) slot = (slot + 1) & mask;
  slots_[slot] = row;
}

void ColdIndex::Insert(const ColdRow& row) {
  if (8 * (size_ + 1) > 7 * static_cast<int64_t>(slots_.size())) {
    std::vector<ColdRow> old(slots_.empty() ? kFewestSlots : 2 * slots_.size());
    old.swap(slots_);
    for (const ColdRow& moved : old) {
      if (moved.position != ColdRow::kNone) Place(moved);
    }
  }
  Place(row);
  ++size_;
}

void ColdIndex::Remove(uint64_t key, uint64_t hash) {
  int64_t hole = FindSlot(key, hash);
  if (hole < 0) return;
  --size_;
  // Moves entries back whose search would otherwise end at the hole.
  const auto mask = static_cast<int64_t>(slots_.size() - 1);
  for (int64_t slot = (hole + 1) & mask;
       slots_[slot].position != ColdRow::kNone; slot = (slot + 1) & mask) {
    const int64_t home = Home(KeyHash(slots_[slot].key));
    if (((slot - home) & mask) >= ((slot - hole) & mask)) {
      slots_[hole] = slots_[slot];
      hole = slot;
    }
  }
  slots_[hole].position = ColdRow::kNone;
}

}  // namespace tributary
