// Finds the rows of a bucket that are on a disk.
#ifndef TRIBUTARY_COMMON_SPARSE_COLD_INDEX_H_
#define TRIBUTARY_COMMON_SPARSE_COLD_INDEX_H_

#include <cstdint>
#include <vector>

namespace tributary {

// A row in a RowLog.
struct ColdRow {
  static constexpr uint32_t kNone = 0xffffffff;

  uint64_t key = 0;
  uint32_t position = kNone;
  // As in RowHeader.
  uint32_t last_step = 0;
};

// A hash table with open addressing and linear probing, of 16 bytes for each
// slot, between 7/16 and 7/8 full. Not thread-safe.
class ColdIndex {
 public:
  int64_t size() const { return size_; }
  int64_t bytes() const {
    return static_cast<int64_t>(slots_.size() * sizeof(ColdRow));
  }

  // Loads the cache line in which Find begins its search.
  void Prefetch(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[Home(hash)]);
  }
  // Returns the entry of `key`, whose KeyHash is `hash`; null if there is none.
  // It is valid until the next change.
  const ColdRow* Find(uint64_t key, uint64_t hash) const {
    const int64_t slot = FindSlot(key, hash);
    return slot < 0 ? nullptr : &slots_[slot];
  }
  // Adds an entry for a key that has none.
  void Insert(const ColdRow& row);
  // Changes the position of a key that has an entry.
  void Move(uint64_t key, uint64_t hash, uint32_t position) {
    slots_[FindSlot(key, hash)].position = position;
  }
  // Removes the entry of `key`, if there is one.
  void Remove(uint64_t key, uint64_t hash);

  // Calls visit(const ColdRow&) for each entry, in any order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const ColdRow& row : slots_) {
      if (row.position != ColdRow::kNone) visit(row);
    }
  }

 private:
  // Where the search for a key begins; see RowBucket::Home.
  int64_t Home(uint64_t hash) const {
    return static_cast<int64_t>((hash >> 32) & (slots_.size() - 1));
  }
  // Returns -1 if the key has no entry.
  int64_t FindSlot(uint64_t key, uint64_t hash) const;
  void Place(const ColdRow& row);

  std::vector<ColdRow> slots_;  // A power of two, or none.
  int64_t size_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_COLD_INDEX_H_
