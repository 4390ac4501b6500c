// In-memory replicas. Each server keeps the newest versions of its own shard
// and of the preceding shard, so that no completed step is lost if a server is
// lost.
#ifndef TRIBUTARY_SERVER_REPLICATION_REPLICA_STORE_H_
#define TRIBUTARY_SERVER_REPLICATION_REPLICA_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/snapshot.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/journal.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/replication/table_replicas.h"

namespace tributary {

// Keeps the newest two versions of each chunk of two shards: this server's own
// shard and the preceding server's shard. In an all-reduce, keeps the state
// that workers save, as shard 0. Lives as long as the server's process, across
// all attempts. Thread-safe.
//
// Two versions of each chunk are enough. A server publishes version v + 1 of a
// chunk only after the next server has a copy (see UpdateEngine). Every
// server computes version v + 2 of a chunk from gradients of version v + 1 of
// all chunks. Let w be the newest version that has been published for all
// chunks. Each chunk is then at w or w + 1, so after the loss of any one
// server, w is among the newest two versions of every chunk on the remaining
// servers. No worker has received a version beyond w + 1.
//
// In a job with tables, the same holds for the tables of a server; see
// TableEngine.
class ReplicaStore {
 public:
  // Starts to keep copies of chunks for the job and run in `scope`. Each copy
  // of a chunk has `arrays` arrays: the weights and the arrays of optimizer
  // state. Discards existing copies of a different scope or number of arrays.
  // With `every_version`, the versions of a chunk must be consecutive;
  // otherwise they need only increase.
  void Begin(const JournalScope& scope, const ArenaLayout& layout, int arrays,
             bool every_version = true) ABSL_LOCKS_EXCLUDED(mu_);
  // Discards all copies of chunks, all tables and all job states except those
  // of `version`. With nullopt, discards all.
  void KeepOnly(std::optional<int64_t> version) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns FailedPrecondition if `scope` differs from the scope passed to
  // Begin, and Unavailable if Begin was not called yet.
  absl::Status CheckScope(const JournalScope& scope) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Adds a copy of a chunk. Replaces a copy of the same version and removes all
  // but the newest two versions. The caller must not modify the copy
  // afterwards. Returns InvalidArgument for a chunk that does not belong to the
  // shard, and for a new version that does not follow the newest one.
  absl::Status Add(int shard, int64_t version, Snapshot::Chunk copy)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Stores the job's state (its progress, such as the results of evaluations)
  // at `version`, and removes all but the states of the newest four versions.
  void AddJobState(int64_t version, const JobState& state)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The tables of both shards; empty in jobs without tables.
  TableReplicas& tables() { return tables_; }
  const TableReplicas& tables() const { return tables_; }

  // Returns the contents of this store for the Enlist message: for each shard,
  // the versions of which all chunks and tables are present, and the job
  // states. Returns nullopt if the store holds no copy.
  std::optional<JournalHoldings> Holdings() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the copies of all chunks of a shard at `version`. The copies share
  // their buffers with this object, so the caller must not modify them. Returns
  // NotFound if any copy is missing.
  absl::StatusOr<Snapshot> Find(int shard, int64_t version) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // The size of the replica of a chunk: `arrays` arrays (the weights and the
  // arrays of optimizer state) of `elements` floats.
  struct CopyShape {
    int64_t elements = 0;       // Number of elements of this chunk.
    int64_t most_elements = 0;  // Number of elements of the largest chunk.
    int arrays = 0;
  };
  // Returns the size of the replica of `chunk`. Returns InvalidArgument for a
  // chunk that does not belong to the shard.
  absl::StatusOr<CopyShape> ShapeOf(int shard, int chunk) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Versions = std::map<int64_t, Snapshot::Chunk>;

  // Returns the versions of which all chunks of the shard are present; nothing
  // if the shard has no chunks.
  std::optional<std::vector<int64_t>> WholeVersions(int shard) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);

  // Returns the index of `chunk` among the shard's chunks.
  absl::StatusOr<size_t> PlaceOf(int shard, int chunk) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  JournalScope scope_ ABSL_GUARDED_BY(mu_);
  std::optional<ArenaLayout> layout_ ABSL_GUARDED_BY(mu_);
  int arrays_ ABSL_GUARDED_BY(mu_) = 1;
  bool every_version_ ABSL_GUARDED_BY(mu_) = true;
  // The copies of each chunk, indexed by shard and by the chunk's index among
  // the shard's chunks.
  std::map<int, std::vector<Versions>> shards_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, JobState> states_ ABSL_GUARDED_BY(mu_);
  TableReplicas tables_;
};

// A version from which a job can resume with the in-memory replicas of its
// servers.
struct ReplicaPoint {
  int64_t version = 0;
  JobState job_state;
  // For each shard, a server that has its state in memory.
  std::vector<int> holders;
  // For each shard, whether the next server (ReplicaHolderOf) has it.
  std::vector<bool> stored;
};

// Returns the newest version for which the replica of every shard, and the
// JobState, are in the memory of at least one server. Returns nullopt if there
// is none. `holdings` contains what each server reported in Enlist, indexed by
// shard. Ignores reports of a different scope (job, run, model or data).
// `layout` is the layout of the job's model. Without `tables`, a shard without
// chunks has no state.
std::optional<ReplicaPoint> NewestInMemory(
    const std::vector<std::optional<JournalHoldings>>& holdings,
    const JournalScope& scope, const ArenaLayout& layout, bool tables);

// Returns the server that keeps the replica of the shard: the next server, or
// server 0 for the last shard.
inline int ReplicaHolderOf(int shard, int servers) {
  return (shard + 1) % servers;
}

// Returns true if all fields of `a` and `b` are equal.
bool SameScope(const JournalScope& a, const JournalScope& b);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_REPLICA_STORE_H_
