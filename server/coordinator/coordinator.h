// Runs one attempt at a job: the logic of shard 0, without gRPC. Method calls
// deliver incoming messages; WorkerLink and ServerLink send outgoing ones.
#ifndef TRIBUTARY_SERVER_COORDINATOR_COORDINATOR_H_
#define TRIBUTARY_SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metrics_page.h"
#include "common/parameters/arena_layout.h"
#include "common/tensor_io/safetensors_file.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/admission_control.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/attempt_phase.h"
#include "server/coordinator/peers.h"
#include "server/coordinator/training.h"
#include "server/coordinator/watchdog.h"
#include "server/coordinator/work_assignment.h"
#include "server/trace/trace_collector.h"

namespace tributary {

// What an attempt has found out, for the process that runs the job.
struct AttemptFacts {
  // True if at least one worker has reported Synced in this attempt, which
  // means that the worker has all weights, unless the attempt has ended because
  // no step was completed.
  bool has_trained = false;
  // Facts about the data that this attempt uses (numbers of samples,
  // fingerprint); absent until a worker has reported Synced.
  std::optional<DataFacts> data;
  // The layout of the model's parameters, and the version of the finished
  // model. Absent, and 0, until the workers agree on the model and the data
  // (see StartQuorum), unless the job was complete before this attempt began.
  std::optional<ArenaLayout> layout;
  int64_t final_version = 0;
  // The folder of the checkpoint with the finished model if the job was
  // complete before this attempt began, otherwise an empty string.
  std::string complete_checkpoint;
  // The host:port of each server, indexed by shard. The string is empty for
  // shard 0 and for a server that has not enlisted.
  std::vector<std::string> server_addresses;
  // The number of workers at the moment at which the attempt was rolled back,
  // or was overtaken by a newer coordinator (see Coordinator::Overtaken); 0 if
  // neither has happened, for example if the job failed.
  int workers_at_ending = 0;
  // The number of workers that came when the job was done before the attempt
  // began, and were told so.
  int64_t workers_told_done = 0;
  // The tensors of the final model that are no parameters; none if no worker
  // has sent them. They point into the coordinator.
  std::vector<NamedTensor> untrained;
  // True if the attempt failed to begin from the in-memory replicas (copies of
  // a server's state in the memory of a different server).
  bool memory_failed = false;
};

// Runs one attempt at a job, from before the first peer connects until the
// attempt ends. An attempt ends with the job, or earlier: for example, the loss
// of a server ends the attempt, not the job.
//
// Owns an Attempt with the parts that change it, and the lock that guards them;
// passes each message to the part that handles it. Thread-safe.
// Only the Await functions block. WorkerLinks, ServerLinks, the
// CheckpointCommitter and the callbacks are called with the lock held. If a
// method that handles a peer's message returns an error, the caller ends that
// peer's connection. status() returns the error that ended the attempt.
class Coordinator {
 public:
  using Options = AttemptOptions;
  using Ending = AttemptEnding;
  using Clock = Attempt::Clock;
  using MetricsSink = Training::MetricsSink;

  Coordinator(const Options& options, Clock clock, MetricsSink metrics);

  // ---- Workers. `link` must stay valid until OnWorkerDisconnected returns.

  // Adds a worker that asks to join. Returns its incarnation, which identifies
  // the worker in later calls, or the error with which the caller must end the
  // worker's connection: FailedPrecondition if the worker has a different
  // protocol version, or an error of AdmissionControl::AddWorker.
  absl::StatusOr<int64_t> AddWorker(const Join& join, WorkerLink* link)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Handles a report of a worker. If this returns an error, the caller ends the
  // worker's connection. Returns Aborted if the worker is no longer a member;
  // the worker may join again.
  absl::Status OnWorkerReport(int64_t incarnation, const WorkerReport& report)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Removes the worker after its connection has ended. Repeated calls have no
  // effect.
  void OnWorkerDisconnected(int64_t incarnation) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- Servers, shard 0 included. `link` must stay valid until ServerGone
  // returns.

  absl::Status AddServer(const Enlist& enlist, ServerLink* link)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status OnServerReport(int shard, const ServerReport& report)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Handles the end of the server's connection; see Peers::OnServerGone.
  void ServerGone(int shard) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- Results of the CheckpointCommitter.

  void OnCheckpointFolder(const absl::StatusOr<std::string>& folder)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnCheckpointCommitted(const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Enforces leases and timeouts. Call it several times a second.
  void Tick() ABSL_LOCKS_EXCLUDED(mu_);

  // Fails the job for a reason outside of the coordinator, such as a disk
  // error. No effect if the job is done, was stopped or has failed.
  void Fail(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the attempt as kFailed because a newer coordinator has taken over the
  // job. Tells all peers to join again; they then join the newer coordinator.
  void Overtaken(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- The job's end, for the process that runs it.

  // Stops the job before its end; see Training::Drain.
  void Drain() ABSL_LOCKS_EXCLUDED(mu_);

  // Waits until the attempt has ended, and returns how it ended. Returns kNone
  // if the attempt has not ended within `timeout`.
  Ending AwaitEnding(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells the servers that the job has ended, so that they exit. If the job was
  // stopped, also tells the workers.
  void FinishServers() ABSL_LOCKS_EXCLUDED(mu_);
  AttemptFacts Facts() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the lines for the log that were added since the last call. Each
  // names a worker that was refused or removed, and the reason.
  std::vector<std::string> TakeNotices() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the trace records that were received from each process, and removes
  // them from this object. Returns an empty list unless the job traces steps.
  std::vector<TracedProcess> TakeTrace() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if there are trace records, and every process that has not
  // left has sent all of its records.
  bool trace_complete() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until all servers have disconnected. Returns false if some are still
  // connected after `timeout`.
  bool AwaitServersGone(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns why the attempt has ended. Returns OK unless it has ended as
  // kFailed, kRolledBack or kDamaged.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);
  StatusReply GetStatus() const ABSL_LOCKS_EXCLUDED(mu_);
  // Adds the job's metrics to `*page`; see AddJobMetrics.
  void AddMetrics(MetricsPage* page) const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the text of summary.json. It is complete after every process has
  // sent its Farewell (its final statistics). `weights_sha256` is the digest of
  // the final model; empty if there is none.
  std::string Summary(const std::string& weights_sha256 = "") const
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the manifest of the finished model, after the attempt has ended as
  // kTrained. If the manifest names files, they are those of a checkpoint; the
  // file of the final model is never among them.
  CheckpointManifest FinalManifest() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Handles a report of a member. Returns an error if the report is invalid or
  // the member may not take part.
  absl::Status Handle(Member* member, const WorkerReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  Attempt attempt_ ABSL_GUARDED_BY(mu_);
  WorkAssignment assignment_ ABSL_GUARDED_BY(mu_);
  Training training_ ABSL_GUARDED_BY(mu_);
  Peers peers_ ABSL_GUARDED_BY(mu_);
  AdmissionControl admission_ ABSL_GUARDED_BY(mu_);
  Watchdog watchdog_ ABSL_GUARDED_BY(mu_);
  TraceCollector trace_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_COORDINATOR_H_
