// A server's part of a table of embeddings.
#ifndef TRIBUTARY_COMMON_SPARSE_SPARSE_TABLE_H_
#define TRIBUTARY_COMMON_SPARSE_SPARSE_TABLE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/sparse/bucket_rows.h"
#include "common/sparse/initial_rows.h"
#include "common/sparse/row_gradients.h"
#include "common/sparse/row_layout.h"
#include "common/sparse/row_rule.h"
#include "common/sparse/rows_before.h"
#include "common/sparse/table_buckets.h"
#include "proto/job.pb.h"

namespace tributary {

// The parameters of a step that are the same for all tables.
struct RowsUpdate {
  // The gradient of a row is the sum of its gradients times this scale.
  float gradient_scale = 1;
  // Factor of the learning rates of the tables' rules.
  double rate_factor = 1;
};

// Stands for the newest version of the rows of a table.
inline constexpr int64_t kNewestRows = -1;

// The rows of those buckets of a table that belong to one server, in the newest
// version and in some versions before it. Version v is the state after v steps.
//
// Everything that depends on more than one key, such as which rows are removed,
// is decided within a bucket, by steps and keys. So the rows do not depend on
// the number of servers. A key without a row has initial values, a function of
// the seed, the table's name, the key and the column; reading does not create
// rows. A key gets a row in the first step whose gradient contains the key and
// in which it is admitted (AdmissionSpec); the step changes the row.
//
// A worker may need an older version than the newest: it computes a step for
// another worker that was lost, after this server has received all gradients of
// the step but another server has not. So Apply keeps the values of the rows
// that it changes (RowsBefore), and Read returns any of the last
// Options::versions versions.
//
// Thread-safe. Reads run at the same time; updates run alone.
class SparseTable {
 public:
  struct Options {
    SparseTableSpec spec;  // Valid.
    uint64_t seed = 0;     // The job's.
    int shard = 0;
    int servers = 1;
    // The version of the table, which is empty. 0 unless the rows of a
    // checkpoint are added.
    int64_t version = 0;
    // How many versions can be read, including the newest one.
    int versions = 2;
    // True to remember what the last step has changed, for LastStep and
    // RollBack.
    bool replicated = false;
  };
  // Returns the errors of RowRule::Create and RowLog::Create, and
  // InvalidArgument if memory_bytes is too small for a table with a disk.
  static absl::StatusOr<std::unique_ptr<SparseTable>> Create(
      const Options& options);

  const SparseTableSpec& spec() const { return options_.spec; }
  int dim() const { return layout_.dim; }
  const RowRule& rule() const { return rule_; }

  // Returns InvalidArgument unless the keys are ascending, without duplicates,
  // and belong to buckets of this server.
  absl::Status CheckKeys(absl::Span<const uint64_t> keys) const;

  // Returns the newest version; -1 after an error of Apply, Skip, Replay or
  // RollBack.
  int64_t version() const ABSL_LOCKS_EXCLUDED(mu_);
  // Writes the values of the rows of `keys`, for which CheckKeys returns OK, to
  // `values`, [keys, dim]. `version` may be kNewestRows. Returns
  // FailedPrecondition if the table does not have this version (any more), and
  // the errors of RowLog::Read.
  absl::Status Read(int64_t version, absl::Span<const uint64_t> keys,
                    float* values) const ABSL_LOCKS_EXCLUDED(mu_);

  // Applies one step with the sum of the batch's gradients, whose keys pass
  // CheckKeys: the version increases by one. Returns ResourceExhausted, with a
  // message that says which field of the job to change, if the rows do not fit
  // into memory or a bucket, and the errors of RowLog; rows of the step may
  // then be missing, and the table has no version any more.
  absl::Status Apply(std::shared_ptr<const RowGradients> sum,
                     const RowsUpdate& update) ABSL_LOCKS_EXCLUDED(mu_);
  // Counts a step that changes nothing: one whose gradient is skipped. Returns
  // the errors of RowLog, as Apply does.
  absl::Status Skip() ABSL_LOCKS_EXCLUDED(mu_);

  // The following three are for tables with Options::replicated.

  // Returns what the last step has changed, whatever kind of keys, each list
  // ascending; nothing if there was no step since the table was created or
  // rolled back. Returns the errors of RowLog::Read.
  absl::StatusOr<BucketRows> LastStep() const ABSL_LOCKS_EXCLUDED(mu_);
  // Applies what LastStep of another table has returned, for a table that has
  // the version before this step and the same rows. All keys must pass
  // CheckKeys together. Returns the errors of Apply.
  absl::Status Replay(const BucketRows& changes) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if RollBack is possible.
  bool CanRollBack() const ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the last step back: the version decreases by one. What has changed
  // since the last checkpoint is then unknown; call ChangeAll. Returns
  // FailedPrecondition if LastStep returns nothing, and the errors of Apply.
  absl::Status RollBack() ABSL_LOCKS_EXCLUDED(mu_);

  struct Size {
    int64_t rows = 0;
    int64_t bytes = 0;  // Of the memory for rows and their index.
    int64_t rows_on_disk = 0;
    int64_t disk_bytes = 0;
  };
  Size size() const ABSL_LOCKS_EXCLUDED(mu_);

  // What the rows were before an earlier step changed them, as checkpoints
  // contain it.
  struct StepBefore {
    int age = 1;  // The step led from version v - age to the next.
    std::vector<uint64_t> keys;     // In any order.
    std::vector<uint32_t> existed;  // 0: the key had no row.
    std::vector<float> values;      // [keys, dim].
  };
  struct Changes {
    // The error of a row that could not be read from the disk. Then the changes
    // are not complete.
    absl::Status status;
    // Lists in any order, perhaps with duplicates: see SortRows.
    std::vector<BucketRows> buckets;
    std::vector<StepBefore> before;
  };
  // Copies what has changed since Options::version, or since the last call that
  // was confirmed, and what the rows were before the last `steps` steps.
  Changes TakeChanges(int steps) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns what the rows were before each of the last `steps` steps.
  std::vector<StepBefore> ReadBefore(int steps) const ABSL_LOCKS_EXCLUDED(mu_);
  // Call it when the changes taken at `version` are safe. No effect if later
  // ones were taken: these include them.
  void ConfirmChanges(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  // Lets all rows count as changed.
  void ChangeAll() ABSL_LOCKS_EXCLUDED(mu_);
  // Adds those rows of a bucket that belong to this server. Returns
  // InvalidArgument, naming the key, if a key does not belong to the bucket or
  // has a row already, and ResourceExhausted like Apply.
  absl::Status Restore(const BucketRows& rows) ABSL_LOCKS_EXCLUDED(mu_);
  // Adds the part of earlier values that belongs to this server. Call it for
  // all parts of one age before the next age, beginning with age 1; otherwise
  // it returns InvalidArgument. Ignores ages of versions that cannot be read.
  absl::Status Restore(const StepBefore& before) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the buckets of this server, ascending.
  std::vector<int> buckets() const;
  // Returns the rows of a bucket of this server, or the errors of RowLog::Read.
  absl::StatusOr<BucketRows> ReadBucket(int bucket) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  SparseTable(const Options& options, RowRule rule, const RowLayout& layout);
  // Writes the values of the newest version. Returns the errors of
  // RowLog::Read.
  absl::Status ReadNewest(absl::Span<const uint64_t> keys, float* values) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Ends `step`, whose changes are in `before`, and in `undo` if the table is
  // replicated: removes old rows. Returns the errors of the log.
  absl::Status Advance(int64_t step, std::unique_ptr<RowsBefore> before,
                       BucketRows undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes the version after `step`.
  absl::Status Finish(int64_t step, std::unique_ptr<RowsBefore> before,
                      BucketRows undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const RowRule rule_;
  const RowLayout layout_;
  const InitialRows initial_;

  mutable absl::Mutex mu_;
  int64_t version_ ABSL_GUARDED_BY(mu_);
  int64_t changes_taken_ ABSL_GUARDED_BY(mu_) = -1;  // Their version.
  std::unique_ptr<TableBuckets> buckets_;            // Guarded by mu_.
  // If the table is replicated: what the keys that the last step has changed
  // were before it; absent if there is no such step.
  std::optional<BucketRows> undo_ ABSL_GUARDED_BY(mu_);
  // Element i belongs to the step from version version_ - i - 1 to the next.
  std::deque<std::unique_ptr<RowsBefore>> before_ ABSL_GUARDED_BY(mu_);
  RowsBefore::Space spare_ ABSL_GUARDED_BY(mu_);  // Not in use.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_SPARSE_TABLE_H_
