// Copies of rows that a step needs from a disk.
#ifndef TRIBUTARY_COMMON_SPARSE_STAGED_ROWS_H_
#define TRIBUTARY_COMMON_SPARSE_STAGED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/sparse/row_layout.h"

namespace tributary {

// Copies of some rows of a batch of keys. Not thread-safe.
class StagedRows {
 public:
  explicit StagedRows(const RowLayout& layout) : layout_(layout) {}

  // Adds the row of the key at `place` of the batch. Call it for ascending
  // places, then Allocate, then Set for each row, in any order.
  void Add(int64_t place) { places_.push_back(place); }
  void Allocate() { words_.resize(places_.size() * words()); }
  // Sets the copy of the row that Add has added as number `i`.
  void Set(int64_t i, const RowHeader& row) {
    std::memcpy(words_.data() + i * words(), &row, layout_.bytes());
  }

  // Returns the copy of the row at `place`; null if there is none. Call it with
  // ascending places.
  const RowHeader* At(int64_t place) {
    while (next_ < places_.size() && places_[next_] < place) ++next_;
    if (next_ == places_.size() || places_[next_] != place) return nullptr;
    return reinterpret_cast<const RowHeader*>(words_.data() + next_ * words());
  }

 private:
  int64_t words() const { return layout_.bytes() / 8; }

  const RowLayout layout_;
  std::vector<int64_t> places_;
  std::vector<uint64_t> words_;  // [places, row bytes / 8].
  size_t next_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_STAGED_ROWS_H_
