// What a server keeps in memory so that no step is lost with another server:
// the newest versions of its own shard and of the one before it.
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
#include "common/parameters/parameter_table.h"
#include "common/parameters/snapshot.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/journal.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Lives as long as the server's process, through all attempts. Thread-safe.
//
// Why two versions of each chunk are enough: a server gives out version v + 1
// of a chunk only when the next server has a copy (see ParameterStore), and
// makes v + 2 of any chunk only from gradients that were computed from v + 1 of
// all. So the version w that all chunks have been given out at is, whatever
// happens to one server, among the newest two of every chunk, here or there:
// chunks are at w or w + 1, and what is beyond that was given to nobody.
class ReplicaStore {
 public:
  // Keeps copies for this job from now on, each of `arrays` arrays, and forgets
  // those for another one. With `every_version`, one version comes after the
  // other; else some are left out.
  void Begin(const JournalScope& scope, const ArenaLayout& layout, int arrays,
             bool every_version = true) ABSL_LOCKS_EXCLUDED(mu_);
  // Forgets all copies but those of one version; nullopt: all.
  void KeepOnly(std::optional<int64_t> version) ABSL_LOCKS_EXCLUDED(mu_);

  // FailedPrecondition if it is not what Begin was told, Unavailable before
  // that.
  absl::Status CheckScope(const JournalScope& scope) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Replaces a copy of that version, and the oldest beyond two. The copy is not
  // written to any more. InvalidArgument for a chunk that is not the shard's,
  // and for a version that does not follow the newest.
  absl::Status Add(int shard, int64_t version, Snapshot::Chunk copy)
      ABSL_LOCKS_EXCLUDED(mu_);
  // How far the job is at that version.
  void AddJobState(int64_t version, const JobState& state)
      ABSL_LOCKS_EXCLUDED(mu_);

  // For Enlist; nullopt: there is nothing.
  std::optional<JournalHoldings> Holdings() const ABSL_LOCKS_EXCLUDED(mu_);
  // Shares the copies. NotFound if some are not there.
  absl::StatusOr<Snapshot> Find(int shard, int64_t version) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // What a copy of a chunk must have.
  struct CopyShape {
    int64_t elements = 0;       // Of this chunk.
    int64_t most_elements = 0;  // Of any.
    int arrays = 0;
  };
  // InvalidArgument as Add.
  absl::StatusOr<CopyShape> ShapeOf(int shard, int chunk) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Versions = std::map<int64_t, Snapshot::Chunk>;

  // Of the shard's chunks the place of this one.
  absl::StatusOr<size_t> PlaceOf(int shard, int chunk) const
      ABSL_SHARED_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  JournalScope scope_ ABSL_GUARDED_BY(mu_);
  std::optional<ArenaLayout> layout_ ABSL_GUARDED_BY(mu_);
  int arrays_ ABSL_GUARDED_BY(mu_) = 1;
  bool every_version_ ABSL_GUARDED_BY(mu_) = true;
  // By shard, by place among the shard's chunks.
  std::map<int, std::vector<Versions>> shards_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, JobState> states_ ABSL_GUARDED_BY(mu_);
};

// Where a job can go on from, in the memory of its servers.
struct ReplicaPoint {
  int64_t version = 0;
  JobState job_state;
  std::vector<int> holders;  // By shard: the server that has it.
};

// The newest version of which every shard, and how far the job was, is in the
// memory of some server. `holdings` by server, with what Enlist said; those of
// another scope, which is that of a model with this layout, do not count.
std::optional<ReplicaPoint> NewestInMemory(
    const std::vector<std::optional<JournalHoldings>>& holdings,
    const JournalScope& scope, const ArenaLayout& layout);

// The server that keeps copies of the shard.
inline int ReplicaHolderOf(int shard, int servers) {
  return (shard + 1) % servers;
}

bool SameScope(const JournalScope& a, const JournalScope& b);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_REPLICA_STORE_H_
