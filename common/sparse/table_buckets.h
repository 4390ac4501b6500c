// The buckets of a table that belong to one server.
#ifndef TRIBUTARY_COMMON_SPARSE_TABLE_BUCKETS_H_
#define TRIBUTARY_COMMON_SPARSE_TABLE_BUCKETS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sparse/bucket_rows.h"
#include "common/sparse/key_hash.h"
#include "common/sparse/row_layout.h"
#include "common/sparse/row_log.h"
#include "common/sparse/slab_memory.h"
#include "common/sparse/staged_rows.h"
#include "common/sparse/table_bucket.h"
#include "proto/job.pb.h"

namespace tributary {

// Buckets, and the memory and the log in which they keep rows. Not thread-safe.
class TableBuckets {
 public:
  // Creates the empty buckets of server `shard` of `servers`; see TableBucket
  // for `version`. `spec` must outlive the object. Returns InvalidArgument if
  // memory_bytes is too small for a table with a disk, and the errors of
  // RowLog::Create.
  static absl::StatusOr<std::unique_ptr<TableBuckets>> Create(
      const SparseTableSpec* spec, const RowLayout& layout, int shard,
      int servers, int64_t version);

  // Returns the bucket of the key with this hash; null if it belongs to another
  // server.
  TableBucket* Of(uint64_t hash) const {
    return of_[BucketOfHash(hash, spec_.buckets())];
  }
  // Returns a bucket by its number; null if it belongs to another server.
  TableBucket* Numbered(int bucket) const { return of_[bucket]; }
  // Returns all buckets, ascending.
  const std::vector<std::unique_ptr<TableBucket>>& all() const {
    return buckets_;
  }
  // Returns null if the table has no disk.
  RowLog* log() const { return log_.get(); }
  int64_t memory_bytes() const { return memory_.bytes(); }

  // The keys of the following calls belong to this server. All return the
  // errors of RowLog.

  // Reads those rows of `keys` that are in the log.
  absl::Status Stage(absl::Span<const uint64_t> keys, StagedRows* rows) const;
  // Copies what the keys are, in any order.
  absl::StatusOr<BucketRows> CopyKeys(absl::Span<const uint64_t> keys) const;
  // Lets the keys of `rows` be what it says. Returns TableBucket::Full if a row
  // does not fit.
  absl::Status Set(const BucketRows& rows);
  // Rewrites a part of the log if much of it is not in use.
  absl::Status Compact();

 private:
  TableBuckets(const SparseTableSpec* spec, const RowLayout& layout);

  const SparseTableSpec& spec_;
  const RowLayout layout_;
  SlabMemory memory_;
  std::unique_ptr<RowLog> log_;
  std::vector<std::unique_ptr<TableBucket>> buckets_;
  std::vector<TableBucket*> of_;  // By number.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_TABLE_BUCKETS_H_
