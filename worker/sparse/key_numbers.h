// Numbers the different keys of a table.
#ifndef TRIBUTARY_WORKER_SPARSE_KEY_NUMBERS_H_
#define TRIBUTARY_WORKER_SPARSE_KEY_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tributary {

// Numbers the different keys of a table: first in the order in which they
// occur, and after Sort in ascending order. Thread-compatible.
class KeyNumbers {
 public:
  // Has room for `most` different keys.
  explicit KeyNumbers(size_t most);

  // Returns the number of a key, which is added if it is not there.
  int32_t Of(uint64_t key);
  // Returns the number of a key, or -1 if it is not there.
  int32_t Find(uint64_t key) const { return slots_[SlotOf(key)]; }
  // Sorts the keys. Returns the number that each key has afterwards, by its
  // number before. Of must not be called afterwards.
  std::vector<int32_t> Sort();
  // Returns the keys, by their numbers.
  const std::vector<uint64_t>& keys() const { return keys_; }

 private:
  // Returns the slot that has the key's number, or the free one for it.
  size_t SlotOf(uint64_t key) const;

  std::vector<int32_t> slots_;  // Open addressing; -1: free.
  std::vector<uint64_t> keys_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_SPARSE_KEY_NUMBERS_H_
