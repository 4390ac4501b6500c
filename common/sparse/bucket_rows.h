// Copies of the rows of a bucket.
#ifndef TRIBUTARY_COMMON_SPARSE_BUCKET_ROWS_H_
#define TRIBUTARY_COMMON_SPARSE_BUCKET_ROWS_H_

#include <cstdint>
#include <vector>

#include "common/sparse/key_order.h"
#include "common/sparse/row_layout.h"

namespace tributary {

// The rows of a bucket, all of them or those that have changed, as checkpoints
// contain them; or rows of any buckets of a table, with `bucket` unused.
struct BucketRows {
  // A key without a row that waits for admission; see AdmissionSpec.
  struct Candidate {
    uint64_t key = 0;
    int64_t steps = 0;  // In how many steps the key has occurred.
    uint32_t last_step = 0;
  };
  int bucket = 0;
  // The keys of the rows, and the last steps whose gradient contained them.
  std::vector<uint64_t> keys;
  std::vector<uint32_t> last_steps;
  std::vector<float> values;  // [rows, dim + state].
  std::vector<Candidate> candidates;
  // In changes: keys that had a row or were candidates, and are no more.
  std::vector<uint64_t> removed;
};

// Returns true if the keys are ascending, without duplicates.
bool AreAscending(const std::vector<uint64_t>& keys);
// Adds a row.
void AppendRow(const RowHeader& row, const RowLayout& layout, BucketRows* to);
// Returns the keys of all lists, ascending.
std::vector<uint64_t> AllKeysOf(const BucketRows& rows);

// Sorts the rows of buckets, one after the other, with the same memory. Not
// thread-safe.
class RowSorter {
 public:
  // Sorts each list by the keys, and removes duplicates, which must be equal.
  // `row_floats` is dim + state.
  void Sort(int64_t row_floats, BucketRows* rows);

 private:
  KeyOrder order_;
  BucketRows unsorted_;  // Memory of the bucket before.
};

// Sorts the rows of one bucket; see RowSorter.
void SortRows(int64_t row_floats, BucketRows* rows);
// Applies changes to the rows of a bucket. All lists are ascending.
void ApplyChanges(const BucketRows& changes, int64_t row_floats,
                  BucketRows* rows);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_BUCKET_ROWS_H_
