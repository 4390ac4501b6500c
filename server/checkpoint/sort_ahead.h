// Sorts changes of tables while others are written.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_SORT_AHEAD_H_
#define TRIBUTARY_SERVER_CHECKPOINT_SORT_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/sparse/sparse_table.h"
#include "server/checkpoint/table_record_reader.h"

namespace tributary {

// Sorts the rows of buckets (RowSorter) in their order, on a thread of its own,
// at most two buckets ahead of the caller. So the disk does not wait for
// sorting, and only one bucket takes memory twice. The destructor waits for the
// bucket that is being sorted.
class SortAhead {
 public:
  // The buckets in `*changes` are sorted in place: those of the first table,
  // then those of the next. `floats` are those of each table. `changes` must
  // outlive this object.
  SortAhead(std::vector<SparseTable::Changes>* changes,
            const std::vector<RowFloats>& floats);
  ~SortAhead();
  SortAhead(const SortAhead&) = delete;
  SortAhead& operator=(const SortAhead&) = delete;

  // Returns the next bucket when it is sorted; the caller may change it. Call
  // it at most once for each bucket.
  BucketRows* Next() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Bucket {
    BucketRows* rows;
    int64_t row_floats;
  };

  void Sort() ABSL_LOCKS_EXCLUDED(mu_);

  std::vector<Bucket> buckets_;
  absl::Mutex mu_;
  size_t sorted_ ABSL_GUARDED_BY(mu_) = 0;
  size_t taken_ ABSL_GUARDED_BY(mu_) = 0;  // The number of calls of Next.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // Not started if there are no buckets.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_SORT_AHEAD_H_
