// The part of a server that every shard runs, including the coordinator's:
// builds and serves the engine, applies gradient norms, replicates its state,
// and writes the shard's part of checkpoints.
#ifndef TRIBUTARY_SERVER_PROCESS_LOCAL_SERVER_H_
#define TRIBUTARY_SERVER_PROCESS_LOCAL_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"
#include "common/metrics/metrics_page.h"
#include "common/metrics/process_meter.h"
#include "common/os/file_system.h"
#include "common/parameters/arena_layout.h"
#include "common/trace/trace_sender.h"
#include "common/update/block_pass.h"
#include "common/update/chunk_pass.h"
#include "common/update/update_engine.h"
#include "common/update/update_trace.h"
#include "proto/rendezvous.pb.h"
#include "server/checkpoint/engine_checkpoints.h"
#include "server/checkpoint/snapshot_writer.h"
#include "server/replication/replica_network.h"
#include "server/replication/replica_store.h"
#include "server/replication/replicator.h"
#include "server/service/weights_service.h"

namespace tributary {

// The part of a server that every shard runs: executes the coordinator's orders
// and reports the results. Thread-safe.
class LocalServer {
 public:
  // The threads that execute the coordinator's orders.
  struct Executors {
    // Runs tasks that block on the disk, one at a time.
    std::unique_ptr<Executor> writer;
    // Runs all other tasks. These tasks use `writer`, so `pool` must be
    // destroyed before `writer`.
    std::unique_ptr<Executor> pool;
  };

  // Calls `report` with each report for the coordinator, on any thread.
  // `report` must not block. `files` and `service` must outlive this object,
  // and this object must outlive the streams of `service`.
  LocalServer(int shard, Executors executors, FileSystem* files,
              WeightsService* service,
              std::function<void(const ServerReport&)> report);
  // Calls Replicator::End, and blocks until all queued tasks have ended.
  ~LocalServer();

  // Sets the implementation that sums the gradients of chunks and updates their
  // weights. The default uses the CPU. Call it before Handle.
  void UsePasses(ChunkPassMaker make_passes) {
    make_passes_ = std::move(make_passes);
  }
  // Enables in-memory replicas, for jobs that use them. Call it before Handle.
  // Both arguments must outlive this object.
  void UseReplicas(ReplicaStore* replicas, ReplicaNetwork* network) {
    replicator_.Use(replicas, network);
  }

  // Starts to execute the order and returns without waiting for the result.
  // Returns FailedPrecondition for an order that must follow the Configure
  // order but precedes it, and InvalidArgument for an order without contents.
  absl::Status Handle(const ServerOrder& order) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the heartbeat of this server, which contains
  // UpdateEngine::CompleteVersion or, without an engine, -1.
  ServerReport Heartbeat() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the statistics of this server for the job's status and summary.
  ProcessStatistics Statistics() const ABSL_LOCKS_EXCLUDED(mu_);

  // With output.trace, sends clock probes and trace records to the coordinator.
  // Call it several times a second. No effect in other jobs.
  void BeatTrace() ABSL_LOCKS_EXCLUDED(mu_) {
    TraceSender* const traces = trace();
    if (traces != nullptr) traces->Beat(Heartbeat().heartbeat().version());
  }
  // Sends all remaining trace records to the coordinator. Call it after the
  // last step.
  void FinishTrace() ABSL_LOCKS_EXCLUDED(mu_) {
    if (TraceSender* const traces = trace()) traces->Finish();
  }

  // Adds to `*page` the metrics that every server has.
  void AddMetrics(MetricsPage* page) const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the replication of this server's state. End it before
  // AttemptServices::ShutDown, which waits for the streams of other servers to
  // end: those servers may be waiting for this server's stream to end.
  Replicator* replicator() { return &replicator_; }
  const Replicator& replicator() const { return replicator_; }

  // Returns the engine, which holds this server's part of the weights. Returns
  // null until the Configure order has been executed. In an all-reduce, always
  // returns null.
  UpdateEngine* engine() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Status OnConfigure(const Configure& configure) ABSL_LOCKS_EXCLUDED(mu_);
  // Configures a server of an all-reduce, which keeps copies of the workers'
  // state and has no engine.
  absl::Status ConfigureReplicaHolder(const Configure& configure,
                                      ArenaLayout layout)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Loads the engine's initial state from the replica or the checkpoint that
  // `configure` names. `manifest` is the manifest of the checkpoint. With
  // recovery.journal, also adds the state to this server's replicas.
  absl::Status Restore(const Configure& configure,
                       const CheckpointManifest& manifest,
                       UpdateEngine* engine);
  // Returns null unless the job traces steps.
  TraceSender* trace() const ABSL_LOCKS_EXCLUDED(mu_);
  void ReportFailure(const absl::Status& status, int exit_code);
  absl::Status OnReplicate(const ::tributary::Replicate& order)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status OnSnapshot(const TakeSnapshot& order) ABSL_LOCKS_EXCLUDED(mu_);
  // Writes to disk the state that workers of an all-reduce have sent to this
  // server.
  void WriteKept(const TakeSnapshot& order) ABSL_LOCKS_EXCLUDED(mu_);

  const int shard_;
  FileSystem* const files_;
  WeightsService* const service_;
  const std::function<void(const ServerReport&)> report_;

  ChunkPassMaker make_passes_ = &MakeBlockPasses;

  mutable absl::Mutex mu_;
  // Null unless the job traces steps. Declared before `engine_`, which uses
  // `engine_trace_`, which uses `trace_`. Only OnConfigure sets them.
  std::unique_ptr<TraceSender> trace_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<UpdateTrace> engine_trace_;
  std::unique_ptr<UpdateEngine> engine_ ABSL_GUARDED_BY(mu_);
  // The number of servers, the job and the layout of the model. Set only in an
  // all-reduce, in which the server has no engine.
  int servers_ ABSL_GUARDED_BY(mu_) = 1;
  JobSpec job_ ABSL_GUARDED_BY(mu_);
  std::optional<ArenaLayout> layout_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> state_names_ ABSL_GUARDED_BY(mu_);

  const ProcessMeter meter_;
  Replicator replicator_;
  SnapshotWriter snapshots_;
  // Null until OnConfigure has made the engine.
  std::unique_ptr<EngineCheckpoints> checkpoints_;

  // `writer_` and `pool_` point to the members of `executors_`. `executors_` is
  // declared last and thus destroyed first, because its executors run the
  // queued tasks before they are destroyed, and these tasks use all other
  // fields.
  Executor* const writer_;
  Executor* const pool_;
  const Executors executors_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_LOCAL_SERVER_H_
