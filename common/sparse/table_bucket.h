// One bucket of a table: the unit in which everything is decided that depends
// on more than one key.
#ifndef TRIBUTARY_COMMON_SPARSE_TABLE_BUCKET_H_
#define TRIBUTARY_COMMON_SPARSE_TABLE_BUCKET_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/sparse/row_bucket.h"
#include "common/sparse/row_layout.h"
#include "common/sparse/rows_before.h"
#include "common/sparse/slab_memory.h"
#include "proto/job.pb.h"

namespace tributary {

// The rows of a bucket, as checkpoints contain them.
struct BucketRows {
  // A key without a row that waits for admission; see AdmissionSpec.
  struct Candidate {
    uint64_t key = 0;
    int64_t steps = 0;  // In how many steps the key has occurred.
    uint32_t last_step = 0;
  };
  int bucket = 0;
  // The keys of the rows, ascending, and the last steps whose gradient
  // contained them.
  std::vector<uint64_t> keys;
  std::vector<uint32_t> last_steps;
  std::vector<float> values;          // [rows, dim + state].
  std::vector<Candidate> candidates;  // Ascending.
};

// The newest rows of a bucket, and which of them come and go: admission, expiry
// and capacity, which depend on steps and keys only. Not thread-safe.
class TableBucket {
 public:
  // `spec` and `memory` must outlive the bucket; see RowBucket for `memory`.
  TableBucket(int number, const SparseTableSpec* spec, const RowLayout& layout,
              SlabMemory* memory)
      : number_(number),
        spec_(*spec),
        layout_(layout),
        rows_(layout.bytes(), memory) {}

  const RowBucket& rows() const { return rows_; }

  // Returns whether `key`, which has no row, gets one in `step`, whose gradient
  // contains it.
  bool Admit(uint64_t key, int64_t step);
  // Adds a row with state 0, whose values and last step are not set, for a key
  // that has none. Returns null if it does not fit; see Full.
  RowHeader* Insert(uint64_t key, uint64_t hash);
  // Returns the error for a row that does not fit: ResourceExhausted, saying
  // which field of the job to change.
  absl::Status Full() const;
  // Removes the rows that expire in `step`, and those above the capacity, and
  // records those without a gradient in this step in `*before`.
  void RemoveOld(int64_t step, RowsBefore* before);

  BucketRows Copy() const;
  // Adds rows. Returns InvalidArgument, naming the key, if a key does not
  // belong to the bucket or has a row already, and Full if they do not fit.
  absl::Status Restore(const BucketRows& rows);

 private:
  void Remove(uint64_t key, int64_t step, RowsBefore* before);

  const int number_;
  const SparseTableSpec& spec_;
  const RowLayout layout_;
  RowBucket rows_;
  // The candidates of AdmissionSpec.
  absl::flat_hash_map<uint64_t, BucketRows::Candidate> candidates_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_TABLE_BUCKET_H_
