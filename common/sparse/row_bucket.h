// The rows of one bucket of a table.
#ifndef TRIBUTARY_COMMON_SPARSE_ROW_BUCKET_H_
#define TRIBUTARY_COMMON_SPARSE_ROW_BUCKET_H_

#include <cstdint>
#include <vector>

#include "common/sparse/key_hash.h"
#include "common/sparse/row_layout.h"
#include "common/sparse/slab_memory.h"

namespace tributary {

// Finds rows by their keys. The index is a hash table with open addressing and
// linear probing, of 4 bytes for each slot: the number of the row, and a tag,
// some bits of the key's hash, which tells apart nearly all different keys, so
// that a search reads one line of the index and the row. Rows lie in slabs and
// do not move. With the key, which a row begins with, and an index that is
// between 7/16 and 7/8 full, a row takes 16 + 4.6 to 9.2 bytes besides its
// values and state. Not thread-safe.
class RowBucket {
 public:
  static constexpr int kSlabRows = 64;
  // The largest number of rows.
  static constexpr int64_t kMaxRows = (int64_t{1} << 24) - 2;

  // `memory` must outlive the bucket; its slabs have `row_bytes` * kSlabRows
  // bytes.
  RowBucket(int64_t row_bytes, SlabMemory* memory)
      : row_bytes_(row_bytes), memory_(memory) {}

  int64_t size() const { return size_; }
  // Returns the bytes of the index.
  int64_t index_bytes() const {
    return static_cast<int64_t>(slots_.size() * sizeof(uint32_t));
  }

  // Loads the cache line in which Find begins its search.
  void Prefetch(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[Home(hash)]);
  }
  // Returns the row of `key`, whose KeyHash is `hash`; null if there is none.
  // The row is valid until it is removed.
  RowHeader* Find(uint64_t key, uint64_t hash) const {
    const int64_t slot = FindSlot(key, hash);
    return slot < 0 ? nullptr : Row(slots_[slot] & kRowMask);
  }
  // Returns the row that Find compares first, so that it can be loaded before:
  // the first one whose tag matches; null if there is none.
  const RowHeader* Candidate(uint64_t hash) const;
  // Adds a row for `key`, which must have none. Sets the key; the other
  // contents are unspecified. Returns null if the bucket
  // has kMaxRows rows or memory does not suffice.
  RowHeader* Insert(uint64_t key, uint64_t hash);
  // Removes the row of `key`, if there is one.
  void Remove(uint64_t key, uint64_t hash);

  // Calls visit(RowHeader*) for each row, in any order. `visit` must not insert
  // or remove rows.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const uint32_t slot : slots_) {
      if (slot != 0) visit(Row(slot & kRowMask));
    }
  }

 private:
  static constexpr uint32_t kRowMask = 0xffffff;

  // Returns the slot where the search for a key begins. The hash modulo the
  // number of buckets is the same for all keys of the bucket, so these are
  // higher bits.
  int64_t Home(uint64_t hash) const {
    return static_cast<int64_t>((hash >> 32) & (slots_.size() - 1));
  }
  static uint32_t Tag(uint64_t hash) {
    return static_cast<uint32_t>(hash >> 56) << 24;
  }
  // `number` counts from 1.
  RowHeader* Row(uint32_t number) const {
    const uint32_t row = number - 1;
    return reinterpret_cast<RowHeader*>(slabs_[row / kSlabRows] +
                                        row % kSlabRows * row_bytes_);
  }
  // Returns -1 if there is no row of the key.
  int64_t FindSlot(uint64_t key, uint64_t hash) const;
  // Doubles the index.
  void Grow();

  const int64_t row_bytes_;
  SlabMemory* const memory_;
  // A power of two, or none. 0: free. Otherwise, the lower 24 bits are the
  // number of a row, and the upper 8 bits its tag.
  std::vector<uint32_t> slots_;
  std::vector<char*> slabs_;
  int64_t size_ = 0;
  uint32_t numbers_ = 0;        // Rows that were taken from slabs.
  std::vector<uint32_t> free_;  // Numbers of removed rows.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_ROW_BUCKET_H_
