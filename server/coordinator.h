// Runs one job: admits workers and servers, deals the work, follows the steps,
// and ends it. The logic of shard 0, without gRPC: messages come in through
// methods and go out through links.
#ifndef TRIBUTARY_SERVER_COORDINATOR_H_
#define TRIBUTARY_SERVER_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/parameter_table.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/job_progress.h"
#include "server/membership.h"
#include "server/run_summary.h"
#include "server/server_roster.h"
#include "server/step_claims.h"

namespace tributary {

// Where orders to one worker go.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  // Queues the order. Called with the coordinator's lock held: must not block,
  // nor call the coordinator.
  virtual void Send(const CoordinatorOrder& order) = 0;
  // Ends the connection with this status, after what was sent. Same rules.
  virtual void Close(const absl::Status& status) = 0;
};

// Thread-safe. Nothing blocks but the Await functions. Time comes from the
// clock given, so tests decide it.
class Coordinator {
 public:
  struct Options {
    JobSpec job;  // Resolved and valid.
    int servers = 1;
    int expected_workers = 1;
    absl::Duration start_timeout = absl::Seconds(60);
    absl::Duration lease = absl::Seconds(10);
    absl::Duration no_worker_timeout = absl::Seconds(60);
  };
  using Clock = std::function<absl::Time()>;
  // Gets lines for metrics.jsonl, in order, with the lock held.
  using MetricsSink = std::function<void(const nlohmann::ordered_json&)>;

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
  // Fails the job unless it is finishing: a server's part of the model is gone
  // with it.
  void ServerGone(int shard) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends leases and waits that are over. To be called several times a second.
  void Tick() ABSL_LOCKS_EXCLUDED(mu_);

  // Fails the job, if it is not done, for a reason that is not the
  // coordinator's to see (the disk, a signal).
  void Fail(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- The job's end, for the process that runs it.
  // Waits until training and evaluation are complete and every worker has said
  // farewell (or its lease ended), or the job failed. False: `timeout` has
  // passed first.
  bool AwaitTrained(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells the other servers to end.
  void FinishServers() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until they have ended. False: `timeout` has passed first.
  bool AwaitServersGone(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

  // OK while the job has not failed.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);
  StatusReply GetStatus() const ABSL_LOCKS_EXCLUDED(mu_);
  // What ran and how it went, without the weights' digest; complete when all
  // have said farewell.
  nlohmann::ordered_json Summary() const ABSL_LOCKS_EXCLUDED(mu_);
  // host:port by shard; that of shard 0 is empty.
  std::vector<std::string> server_addresses() const ABSL_LOCKS_EXCLUDED(mu_);
  // Fixed by the first worker that was ready; absent before.
  std::optional<ArenaLayout> layout() const ABSL_LOCKS_EXCLUDED(mu_);
  // Of the finished model; 0 before the first worker was ready.
  int64_t final_version() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Worker {
    WorkerLink* link = nullptr;
    // How far it has come: each needs the one before.
    bool admitted = false;
    bool ready = false;
    bool opened = false;
  };

  void OnHeartbeat(Member* member, const Heartbeat& heartbeat)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status OnReady(int64_t incarnation, const Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Adopt(const Ready& ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status OnSums(int shard, const StepSums& sums)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status OnEvaluation(const EvaluationReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnFailure(const Member& member, const Failure& failure)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AdmitWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OpenWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DealWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells workers which steps they may compute (asynchronous mode).
  void GrantClaims() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets the worker and, unless `status` is OK, closes its connection with
  // it.
  void RemoveWorker(int64_t incarnation, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FailLocked(const absl::Status& reason, int exit_code)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FlushMetrics() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Names whom the step in progress waits for, if it takes unusually long.
  void FillStall(StatusReply* reply) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const bool asynchronous_;
  const bool clips_;  // Servers wait for every round's norm.
  const Clock clock_;
  const MetricsSink metrics_;

  mutable absl::Mutex mu_;
  StatusReply::Phase phase_ ABSL_GUARDED_BY(mu_) = StatusReply::WAITING;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  int failure_exit_code_ ABSL_GUARDED_BY(mu_) = 0;

  Membership membership_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Worker> workers_ ABSL_GUARDED_BY(mu_);
  ServerRoster servers_ ABSL_GUARDED_BY(mu_);

  // From the first ready worker.
  std::optional<ArenaLayout> layout_ ABSL_GUARDED_BY(mu_);
  std::optional<JobProgress> progress_ ABSL_GUARDED_BY(mu_);
  // In asynchronous mode.
  std::optional<StepClaims> claims_ ABSL_GUARDED_BY(mu_);
  // The worker that brings version 0, until somebody is synced; 0: none.
  int64_t initializer_ ABSL_GUARDED_BY(mu_) = 0;
  bool initialized_ ABSL_GUARDED_BY(mu_) = false;
  // When the first worker was synced; when the last one left.
  absl::Time first_synced_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  absl::Time alone_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  absl::Time finishing_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  int most_workers_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t workers_lost_ ABSL_GUARDED_BY(mu_) = 0;
  // Because other shares were faster.
  int64_t deals_by_speed_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<ProcessReport> finished_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_H_
