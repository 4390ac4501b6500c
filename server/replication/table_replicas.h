// The tables in a server's in-memory replicas.
#ifndef TRIBUTARY_SERVER_REPLICATION_TABLE_REPLICAS_H_
#define TRIBUTARY_SERVER_REPLICATION_TABLE_REPLICAS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/sparse/server/server_tables.h"
#include "common/stream/received_payload.h"
#include "common/stream/replica_rows.h"
#include "proto/job.pb.h"
#include "proto/journal.pb.h"

namespace tributary {

// Keeps the tables of this server's own shard, which an engine changes, and a
// copy of those of the preceding server's shard, which takes the changes of
// each step. Tables can take back their last step, so two versions are in
// memory at the cost of one and of the rows of a step. Thread-safe; calls block
// each other while one applies or takes back a step.
class TableReplicas {
 public:
  // Starts to keep the tables of this job, with `servers` servers. No effect on
  // tables that are kept already. `job` is a result of ResolveJob.
  void Begin(const JobSpec& job, int servers) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if the job has tables.
  bool used() const ABSL_LOCKS_EXCLUDED(mu_);
  // Takes tables back to `version`, and discards those that cannot be; with
  // nullopt, discards all. No engine may use the tables any more.
  void KeepOnly(std::optional<int64_t> version) ABSL_LOCKS_EXCLUDED(mu_);

  // Keeps the tables of this server's shard, in place of those that it keeps.
  void SetOwn(int shard, ServerTables tables) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes a message of the server of `shard`. Returns FailedPrecondition for a
  // job without tables and for changes of tables that it does not have, and the
  // errors of ReplicaRowsReader::Take, after which the tables of the shard are
  // discarded.
  absl::Status Take(int shard, const JournalRows& rows,
                    const ReceivedPayload& payload) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the versions of the tables of each shard.
  std::map<int, std::vector<int64_t>> Versions() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the tables of a shard, which the caller must not change unless they
  // are those of SetOwn. Returns NotFound if this is not their newest version.
  absl::StatusOr<ServerTables> Find(int shard, int64_t version) const
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns SparseSpec::fixed_lag.
  int fixed_lag() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the memory of the copies, without this server's own tables.
  int64_t copy_bytes() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  JobSpec job_ ABSL_GUARDED_BY(mu_);
  int servers_ ABSL_GUARDED_BY(mu_) = 1;
  int own_ ABSL_GUARDED_BY(mu_) = -1;  // The shard of SetOwn.
  // By shard. Tables that are being received are in `readers_` only.
  std::map<int, ServerTables> tables_ ABSL_GUARDED_BY(mu_);
  std::map<int, std::unique_ptr<ReplicaRowsReader>> readers_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_TABLE_REPLICAS_H_
