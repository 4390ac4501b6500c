// Runs one attempt at a job: the logic of shard 0, without gRPC. Messages come
// in through methods and go out through links.
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
#include "common/parameters/parameter_table.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/admission_control.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/attempt_phase.h"
#include "server/coordinator/watchdog.h"

namespace tributary {

// One attempt at a job: from the moment when nobody is there to its end, or to
// the loss of a server, which ends the attempt and not the job.
//
// Owns an Attempt, with the AdmissionControl and the Watchdog that act on it,
// and the one lock that guards them; hands each message to the part that it is
// for. Thread-safe. Nothing blocks but the Await functions. Links, the sink and
// the callbacks are called with the lock held. Time comes from the clock given,
// so tests decide it. An error that a method returns ends the connection of the
// peer that it came from; status() is what ended the attempt.
class Coordinator {
 public:
  using Options = AttemptOptions;
  using Ending = AttemptEnding;
  using Clock = Attempt::Clock;
  using MetricsSink = Attempt::MetricsSink;

  Coordinator(const Options& options, Clock clock, MetricsSink metrics);

  // ---- Workers. `link` must stay valid until WorkerGone returns.
  // The new worker's incarnation, by which it is known from here on.
  absl::StatusOr<int64_t> AddWorker(const Join& join, WorkerLink* link)
      ABSL_LOCKS_EXCLUDED(mu_);
  // An error ends the worker's connection. Aborted for an incarnation that is
  // out: the worker may join again.
  absl::Status OnWorkerReport(int64_t incarnation, const WorkerReport& report)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The connection has ended. Harmless when repeated.
  void WorkerGone(int64_t incarnation) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- Servers, shard 0 included. `link` must stay valid until ServerGone
  // returns.
  absl::Status AddServer(const Enlist& enlist, ServerLink* link)
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status OnServerReport(int shard, const ServerReport& report)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the attempt unless the job is done: a server's part of the state is
  // gone with it.
  void ServerGone(int shard) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- Checkpoints: the sink's answers.
  void OnCheckpointFolder(const absl::StatusOr<std::string>& folder)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnCheckpointCommitted(const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends leases and waits that are over. To be called several times a second.
  void Tick() ABSL_LOCKS_EXCLUDED(mu_);

  // Fails the job, if it is not done, for a reason that is not the
  // coordinator's to see (the disk, a signal).
  void Fail(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Another coordinator has the job now: ends the attempt as failed, but lets
  // everybody join again, over there.
  void Overtaken(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- The job's end, for the process that runs it.
  // Stops the job before its end, after one more checkpoint if there are any.
  void Drain() ABSL_LOCKS_EXCLUDED(mu_);

  // Waits until the attempt has ended. kNone: `timeout` has passed first.
  Ending AwaitEnding(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells the other servers to end.
  void FinishServers() ABSL_LOCKS_EXCLUDED(mu_);
  // Workers that took part when the attempt ended.
  int workers_at_ending() const ABSL_LOCKS_EXCLUDED(mu_);
  // Whether it was to begin from memory, and could not.
  bool memory_failed() const ABSL_LOCKS_EXCLUDED(mu_);
  // That the attempt is trained with; absent while no worker has weights.
  std::optional<DataFacts> data() const ABSL_LOCKS_EXCLUDED(mu_);
  // Lines for the log since the last call: who cannot take part, and why.
  std::vector<std::string> TakeNotices() ABSL_LOCKS_EXCLUDED(mu_);
  // The attempt got as far as that.
  bool has_trained() const ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until they have ended. False: `timeout` has passed first.
  bool AwaitServersGone(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

  // OK while the job has not failed; why the attempt has ended.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);
  StatusReply GetStatus() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the text of summary.json: what ran and how it went. It is complete
  // after every process has sent its Farewell. `weights_sha256` is the digest
  // of the final model; empty if there is none.
  std::string Summary(const std::string& weights_sha256 = "") const
      ABSL_LOCKS_EXCLUDED(mu_);
  // host:port by shard; that of shard 0 is empty.
  std::vector<std::string> server_addresses() const ABSL_LOCKS_EXCLUDED(mu_);
  // Fixed when the workers agree (see StartQuorum); absent before.
  std::optional<ArenaLayout> layout() const ABSL_LOCKS_EXCLUDED(mu_);
  // What a checkpoint of the finished model says, but for its files. To be
  // called when the attempt has ended as kTrained.
  CheckpointManifest FinalManifest() const ABSL_LOCKS_EXCLUDED(mu_);
  // The checkpoint's folder, if all was computed before this attempt began.
  std::string complete_checkpoint() const ABSL_LOCKS_EXCLUDED(mu_);
  // Of the finished model; 0 before the first worker was ready.
  int64_t final_version() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // The reaction to a report of a member.
  absl::Status Handle(Member* member, const WorkerReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  Attempt attempt_ ABSL_GUARDED_BY(mu_);
  AdmissionControl admission_ ABSL_GUARDED_BY(mu_);
  Watchdog watchdog_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_COORDINATOR_H_
