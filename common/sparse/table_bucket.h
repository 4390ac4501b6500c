// One bucket of a table: the unit in which everything is decided that depends
// on more than one key.
#ifndef TRIBUTARY_COMMON_SPARSE_TABLE_BUCKET_H_
#define TRIBUTARY_COMMON_SPARSE_TABLE_BUCKET_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sparse/bucket_rows.h"
#include "common/sparse/cold_index.h"
#include "common/sparse/row_bucket.h"
#include "common/sparse/row_layout.h"
#include "common/sparse/row_log.h"
#include "common/sparse/rows_before.h"
#include "common/sparse/slab_memory.h"
#include "proto/job.pb.h"

namespace tributary {

// The newest rows of a bucket, and which of them come and go: admission, expiry
// and capacity, which depend on steps and keys only. Not thread-safe.
class TableBucket {
 public:
  // Where rows are that do not fit into memory.
  struct Disk {
    RowLog* log = nullptr;       // Null: nowhere.
    int64_t rows_in_memory = 0;  // The others are in the log. At least 1.
  };
  // All pointers must outlive the bucket; see RowBucket for `memory`. The rows
  // of steps before `version` do not count as changes.
  TableBucket(int number, const SparseTableSpec* spec, const RowLayout& layout,
              SlabMemory* memory, const Disk& disk, int64_t version)
      : number_(number),
        spec_(*spec),
        layout_(layout),
        disk_(disk),
        rows_(layout.bytes(), memory),
        changed_since_(version) {}

  // The rows in memory.
  const RowBucket& rows() const { return rows_; }
  // The rows in the log.
  const ColdIndex& cold() const { return cold_; }
  int64_t size() const { return rows_.size() + cold_.size(); }
  // Loads the cache lines in which a search for a key begins.
  void Prefetch(uint64_t hash) const {
    rows_.Prefetch(hash);
    cold_.Prefetch(hash);
  }

  // Returns whether `key`, which has no row, gets one in `step`, whose gradient
  // contains it.
  bool Admit(uint64_t key, int64_t step);
  // Adds a row with state 0, whose values are not set, for a key that has none
  // and whose first gradient is that of `step`. Returns null if it does not
  // fit; see Full.
  RowHeader* Insert(uint64_t key, uint64_t hash, int64_t step);
  // Moves the row of `key` from the log, where it is, to memory. `copy` is its
  // copy; null: it is read from the log. Returns null if it does not fit or
  // cannot be read; see Full.
  RowHeader* Load(uint64_t key, uint64_t hash, const RowHeader* copy);
  // Changes the position of a row in the log if it is still at `from`.
  absl::Status MoveInLog(uint32_t from, const RowHeader& row);
  // Records that `step` changes the row.
  void Touch(RowHeader* row, int64_t step) {
    if (row->last_step < changed_since_) changed_.push_back(row->key);
    row->last_step = static_cast<uint32_t>(step);
  }
  // Returns the error for a row that does not fit: that of the log, or
  // ResourceExhausted, saying which field of the job to change.
  absl::Status Full() const;
  // Removes the rows that expire in `step`, and those above the capacity, and
  // records those without a gradient in this step in `*before`. Returns the
  // errors of RowLog::Read. Adds to `*undo`, unless it is null, what the keys
  // without a gradient were.
  absl::Status RemoveOld(int64_t step, RowsBefore* before, BucketRows* undo);

  // Adds `key`, which has no row: a candidate, or to BucketRows::removed.
  void CopyAbsent(uint64_t key, BucketRows* to) const;
  // Returns the row of `key`, in memory, whose contents the caller must set:
  // adds it if there is none. Returns null if it does not fit; see Full. This
  // and SetAbsent do not count as changes.
  RowHeader* Put(uint64_t key, uint64_t hash);
  // Lets `key` have no row, and be this candidate, or none if it is null.
  void SetAbsent(uint64_t key, uint64_t hash,
                 const BucketRows::Candidate* candidate);

  // Returns the errors of RowLog::Read, too.
  absl::StatusOr<BucketRows> Copy() const;
  // Copies, in any order and perhaps more than once, what has changed since the
  // last call that was confirmed. `version` is the table's. Returns the errors
  // of RowLog::Read.
  absl::StatusOr<BucketRows> TakeChanges(int64_t version);
  // Call it when what the last call of TakeChanges returned is safe.
  void ConfirmChanges() { taken_.clear(); }
  // Lets everything count as changed.
  void ChangeAll();
  // Returns the bytes of both indexes and of the lists of changed keys.
  int64_t index_bytes() const {
    return rows_.index_bytes() + cold_.bytes() +
           static_cast<int64_t>((changed_.capacity() + taken_.capacity()) *
                                sizeof(uint64_t));
  }
  // Adds rows. Returns InvalidArgument, naming the key, if a key does not
  // belong to the bucket or has a row already, and Full if they do not fit.
  absl::Status Restore(const BucketRows& rows);

 private:
  // Adds a row to memory, of which nothing is set but its key.
  RowHeader* Add(uint64_t key, uint64_t hash);
  // Moves an eighth of the rows in memory to the log: those with the oldest
  // gradients.
  absl::Status MoveToLog();
  // Calls visit(key, last_step) for each row.
  template <typename Visit>
  void ForEachRow(const Visit& visit) const {
    rows_.ForEach(
        [&](const RowHeader* row) { visit(row->key, row->last_step); });
    cold_.ForEach([&](const ColdRow& row) { visit(row.key, row.last_step); });
  }
  // Adds copies of rows in the log.
  absl::Status Append(const std::vector<uint32_t>& positions,
                      BucketRows* to) const;
  absl::Status Remove(const std::vector<uint64_t>& keys, int64_t step,
                      RowsBefore* before, BucketRows* undo);

  const int number_;
  const SparseTableSpec& spec_;
  const RowLayout layout_;
  const Disk disk_;
  RowBucket rows_;
  ColdIndex cold_;
  absl::Status log_error_;  // Of the last call that needed the log.
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
