// A server's in-memory replicas: the copies that it sends to the next server,
// and those that it keeps for other servers.
#ifndef TRIBUTARY_SERVER_REPLICATION_REPLICATOR_H_
#define TRIBUTARY_SERVER_REPLICATION_REPLICATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"
#include "common/metrics/metrics_page.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/snapshot.h"
#include "common/sparse/bucket_rows.h"
#include "common/sparse/server/server_tables.h"
#include "common/stream/replica_rows.h"
#include "common/stream/replica_stream.h"
#include "proto/rendezvous.pb.h"
#include "server/replication/replica_network.h"
#include "server/replication/replica_store.h"

namespace tributary {

// Replicates the state of one server in an attempt. Thread-safe.
class Replicator {
 public:
  // Calls `report` with each report for the coordinator, on any thread.
  // `report` must not block. Copies rows on `pool`, which must be drained
  // before this object is destroyed.
  Replicator(int shard, Executor* pool,
             std::function<void(const ServerReport&)> report)
      : shard_(shard), pool_(pool), report_(std::move(report)) {}

  // Enables in-memory replicas. Call it before all other methods. Both
  // arguments must outlive this object.
  void Use(ReplicaStore* replicas, ReplicaNetwork* network) {
    replicas_ = replicas;
    network_ = network;
  }
  // Return the arguments of Use; null without in-memory replicas.
  ReplicaStore* replicas() const { return replicas_; }
  ReplicaNetwork* network() const { return network_; }

  // Prepares the replica store for this job and removes all replicas except
  // those that the attempt begins from. A copy of a chunk has `arrays` arrays
  // (the weights and the optimizer state).
  void Prepare(const Configure& configure, const ArenaLayout& layout,
               int arrays);
  // Sets the version that the attempt begins with, and this server's tables at
  // this version, if the job replicates them. Call it before Open.
  void Begin(int64_t version, ServerTables tables) ABSL_LOCKS_EXCLUDED(mu_);
  // Opens the stream to the next server, at `address`, and sends it the version
  // that the attempt begins with, unless this is version 0 or the next server
  // has `stored` it. Reports Replicated when the next server has stored it. May
  // block to read certificates.
  void Open(const std::string& address, bool stored) ABSL_LOCKS_EXCLUDED(mu_);
  // Stores a copy of a chunk's state in this server's memory and sends it to
  // the next server. Calls `kept` when the next server has stored the copy.
  void Keep(int64_t version, Snapshot::Chunk copy, std::function<void()> kept)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Sends the next server what a step has changed in each table; see
  // TableEngine::SetReplicator.
  void KeepRows(int64_t version, const std::vector<BucketRows>& changes,
                std::function<void()> kept) ABSL_LOCKS_EXCLUDED(mu_);
  // Stops replication at the end of the attempt. After this call, this server
  // sends no copies to the next server, so a job with replicas publishes no
  // further version. Call it before AttemptServices::ShutDown, which waits for
  // the streams of other servers to end: those servers may be waiting for this
  // server's stream to end.
  void End() ABSL_LOCKS_EXCLUDED(mu_);

  // Reads the in-memory replica of `shard` at `version`. Does not read tables
  // that this server has itself: see ReplicaStore::tables. `holder` is the
  // shard of the server that holds the replica: this server, or the server at
  // `address`. Blocks for a bounded time. Call it after the Configure order has
  // been executed. Returns NotFound if `holder` does not have the replica at
  // `version`, and other errors of ReplicaNetwork::Fetch.
  absl::Status ReadCopies(int shard, int64_t version, int holder,
                          const std::string& address,
                          const ReplicaTarget& to) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Adds the metrics of jobs with tables and replicas.
  void AddMetrics(MetricsPage* page) const;

  void ReportFailure(const absl::Status& status);

 private:
  void Replicate(ReplicaStream* replication, int64_t base);
  // Sends the next rows of `tables`, and then the following ones when they are
  // stored. Calls `done` at the end.
  void SendTables(ReplicaStream* replication,
                  std::shared_ptr<WholeTables> tables,
                  std::function<void()> done);
  // Sends messages with rows, and calls `kept` when all are stored.
  void SendRows(ReplicaStream* replication, std::vector<ReplicaRows> parts,
                std::function<void()> kept);

  const int shard_;
  Executor* const pool_;
  const std::function<void(const ServerReport&)> report_;
  ReplicaStore* replicas_ = nullptr;
  ReplicaNetwork* network_ = nullptr;

  mutable absl::Mutex mu_;
  JournalHello hello_ ABSL_GUARDED_BY(mu_);
  // The version that the attempt began with.
  int64_t base_version_ ABSL_GUARDED_BY(mu_) = 0;
  ServerTables tables_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<ReplicaStream> replication_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<int64_t> row_bytes_{0};  // That were sent.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_REPLICATOR_H_
