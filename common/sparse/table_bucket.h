// One bucket of a table: the unit in which everything is decided that depends
// on more than one key.
#ifndef TRIBUTARY_COMMON_SPARSE_TABLE_BUCKET_H_
#define TRIBUTARY_COMMON_SPARSE_TABLE_BUCKET_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/sparse/bucket_rows.h"
#include "common/sparse/row_bucket.h"
#include "common/sparse/row_layout.h"
#include "common/sparse/rows_before.h"
#include "common/sparse/slab_memory.h"
#include "proto/job.pb.h"

namespace tributary {

// The newest rows of a bucket, and which of them come and go: admission, expiry
// and capacity, which depend on steps and keys only. Not thread-safe.
class TableBucket {
 public:
  // `spec` and `memory` must outlive the bucket; see RowBucket for `memory`.
  // The rows of steps before `version` do not count as changes.
  TableBucket(int number, const SparseTableSpec* spec, const RowLayout& layout,
              SlabMemory* memory, int64_t version)
      : number_(number),
        spec_(*spec),
        layout_(layout),
        rows_(layout.bytes(), memory),
        changed_since_(version) {}

  const RowBucket& rows() const { return rows_; }

  // Returns whether `key`, which has no row, gets one in `step`, whose gradient
  // contains it.
  bool Admit(uint64_t key, int64_t step);
  // Adds a row with state 0, whose values are not set, for a key that has none
  // and whose first gradient is that of `step`. Returns null if it does not
  // fit; see Full.
  RowHeader* Insert(uint64_t key, uint64_t hash, int64_t step);
  // Records that `step` changes the row.
  void Touch(RowHeader* row, int64_t step) {
    if (row->last_step < changed_since_) changed_.push_back(row->key);
    row->last_step = static_cast<uint32_t>(step);
  }
  // Returns the error for a row that does not fit: ResourceExhausted, saying
  // which field of the job to change.
  absl::Status Full() const;
  // Removes the rows that expire in `step`, and those above the capacity, and
  // records those without a gradient in this step in `*before`.
  void RemoveOld(int64_t step, RowsBefore* before);

  BucketRows Copy() const;
  // Copies, in any order and perhaps more than once, what has changed since the
  // last call that was confirmed. `version` is the table's.
  BucketRows TakeChanges(int64_t version);
  // Call it when what the last call of TakeChanges returned is safe.
  void ConfirmChanges() { taken_.clear(); }
  // Lets everything count as changed.
  void ChangeAll();
  // Returns the bytes of the lists of changed keys.
  int64_t changes_bytes() const {
    return static_cast<int64_t>((changed_.capacity() + taken_.capacity()) *
                                sizeof(uint64_t));
  }
  // Adds rows. Returns InvalidArgument, naming the key, if a key does not
  // belong to the bucket or has a row already, and Full if they do not fit.
  absl::Status Restore(const BucketRows& rows);

 private:
  RowHeader* Add(uint64_t key, uint64_t hash);
  void Remove(uint64_t key, int64_t step, RowsBefore* before);

  const int number_;
  const SparseTableSpec& spec_;
  const RowLayout layout_;
  RowBucket rows_;
  // The candidates of AdmissionSpec.
  absl::flat_hash_map<uint64_t, BucketRows::Candidate> candidates_;

  // The keys whose row or candidate has changed since this version, mostly
  // without duplicates: a row whose last step is not below it is listed.
  int64_t changed_since_;
  std::vector<uint64_t> changed_;
  // The keys of changes that were taken and not confirmed.
  std::vector<uint64_t> taken_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_TABLE_BUCKET_H_
