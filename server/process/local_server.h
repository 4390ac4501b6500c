// What every server does, coordinator or not: gets the table, builds its store,
// serves it, applies norms, writes its part of checkpoints.
#ifndef TRIBUTARY_SERVER_PROCESS_LOCAL_SERVER_H_
#define TRIBUTARY_SERVER_PROCESS_LOCAL_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"
#include "common/os/file_system.h"
#include "common/parameters/parameter_table.h"
#include "proto/rendezvous.pb.h"
#include "server/replication/replica_network.h"
#include "server/replication/replica_store.h"
#include "server/service/weights_service.h"
#include "server/store/block_pass.h"
#include "server/store/chunk_pass.h"
#include "server/store/parameter_store.h"

namespace tributary {

// Follows the coordinator's orders. Thread-safe.
class LocalServer {
 public:
  // Where its work is done.
  struct Executors {
    // Waits for the disk, so that nobody else does; one task at a time.
    std::unique_ptr<Executor> writer;
    // Its tasks use the writer, so it ends first.
    std::unique_ptr<Executor> pool;
  };

  // Reports go to `report`, from executors; it must not block. Must outlive the
  // streams of `service`, which must outlive this object, as must `files`.
  LocalServer(int shard, Executors executors, FileSystem* files,
              WeightsService* service,
              std::function<void(const ServerReport&)> report);
  // With threads of its own, on the machine's own disk.
  LocalServer(int shard, int threads, WeightsService* service,
              std::function<void(const ServerReport&)> report);
  // Ends what is under way first.
  ~LocalServer();

  // To be called before Handle. Without it the CPU sums and updates.
  void UsePasses(ChunkPassMaker make_passes);
  // To be called before Handle, for jobs with a journal. Both must outlive this
  // object.
  void UseReplicas(ReplicaStore* replicas, ReplicaNetwork* network);

  // Returns at once; the work is done on executors. Orders that make no sense
  // are errors.
  absl::Status Handle(const ServerOrder& order) ABSL_LOCKS_EXCLUDED(mu_);

  ProcessStatistics Statistics() const;

  // Fills the buffers of `*snapshot`, which has all chunks of the shard, from
  // the journal of server `holder`: this one, or the one at that address.
  // Waits, within bounds. After Configure.
  absl::Status ReadCopies(int shard, int64_t version, int holder,
                          const std::string& address, Snapshot* snapshot) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // At the attempt's end: nothing is kept, or given out, any more. To be called
  // before waiting for the calls of others, who wait for this one's.
  void EndReplication() ABSL_LOCKS_EXCLUDED(mu_);

  // Null before the first Configure, and in an all-reduce.
  ParameterStore* store() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Status OnConfigure(const Configure& configure) ABSL_LOCKS_EXCLUDED(mu_);
  // In an all-reduce, where the journal is all there is.
  absl::Status ConfigureReplicaHolder(const Configure& configure,
                                      ArenaLayout layout)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Lets the journal belong to this job, and forget what does not lead on.
  void PrepareReplicas(const Configure& configure, const ArenaLayout& layout,
                       int arrays);
  // Has the store begin where the order says.
  absl::Status Restore(const Configure& configure,
                       const CheckpointManifest& manifest,
                       ParameterStore* store);
  void Replicate(ReplicaStream* replication, int64_t base);
  void ReportReplicationFailure(const absl::Status& status);
  absl::Status OnReplicate(const ::tributary::Replicate& order)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Puts the copy into the journal and has it kept by the next server.
  void Keep(int64_t version, Snapshot::Chunk copy, std::function<void()> kept)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status OnSnapshot(const TakeSnapshot& order) ABSL_LOCKS_EXCLUDED(mu_);
  // What workers have brought.
  void WriteKept(const TakeSnapshot& order) ABSL_LOCKS_EXCLUDED(mu_);
  // Writes the files and reports.
  void WriteSnapshot(const std::string& folder, const Snapshot& snapshot);
  void ReportSnapshot(int64_t version, SnapshotReport::Outcome outcome,
                      const std::string& message = "",
                      const std::vector<CheckpointFile>& files = {});

  const int shard_;
  FileSystem* const files_;
  WeightsService* const service_;
  const std::function<void(const ServerReport&)> report_;

  ChunkPassMaker make_passes_ = &MakeBlockPasses;

  mutable absl::Mutex mu_;
  std::unique_ptr<ParameterStore> store_ ABSL_GUARDED_BY(mu_);
  int servers_ ABSL_GUARDED_BY(mu_) = 1;
  // Of an all-reduce, which has no store.
  std::optional<ArenaLayout> layout_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> state_names_ ABSL_GUARDED_BY(mu_);
  // Null: there is none.
  ReplicaStore* replicas_ = nullptr;
  ReplicaNetwork* network_ = nullptr;
  JournalHello replica_hello_ ABSL_GUARDED_BY(mu_);
  // What it has begun with, and the next server is to have; 0: nothing yet.
  int64_t base_version_ ABSL_GUARDED_BY(mu_) = 0;
  std::unique_ptr<ReplicaStream> replication_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  // What is still queued when they end uses all of the above, and these.
  Executor* const writer_;
  Executor* const pool_;
  const Executors executors_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_LOCAL_SERVER_H_
