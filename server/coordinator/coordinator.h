// Runs one job: admits workers and servers, deals the work, follows the steps,
// and ends it. The logic of shard 0, without gRPC: messages come in through
// methods and go out through links.
#ifndef TRIBUTARY_SERVER_COORDINATOR_COORDINATOR_H_
#define TRIBUTARY_SERVER_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/parameters/parameter_table.h"
#include "nlohmann/json.hpp"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/all_reduce_group.h"
#include "server/coordinator/beginning.h"
#include "server/coordinator/checkpoint_driver.h"
#include "server/coordinator/membership.h"
#include "server/coordinator/server_roster.h"
#include "server/coordinator/start_quorum.h"
#include "server/coordinator/step_leases.h"
#include "server/progress/job_progress.h"
#include "server/progress/run_summary.h"

namespace tributary {

// One attempt at a job: from the moment when nobody is there to its end, or to
// the loss of a server, which ends the attempt and not the job.
//
// Thread-safe. Nothing blocks but the Await functions. Time comes from the
// clock given, so tests decide it.
class Coordinator {
 public:
  struct Options {
    JobSpec job;  // Resolved and valid.
    int servers = 1;
    int expected_workers = 1;
    int max_workers = kDefaultLimits.workers;
    absl::Duration start_timeout = absl::Seconds(60);
    absl::Duration lease = absl::Seconds(10);
    absl::Duration no_worker_timeout = absl::Seconds(60);
    // How long the job may be without one of its servers before it fails.
    absl::Duration no_server_timeout = absl::Minutes(10);
    // A step that has not ended for so long, and that is unusual, is taken for
    // hung, though everybody shows signs of life.
    absl::Duration stall_timeout = absl::Minutes(10);
    int64_t attempt = 1;
    std::optional<ResumePoint> resume;
    // Goes on from what servers have in memory of this run, where that is
    // newer.
    bool resume_from_memory = false;
    std::string run;  // See JournalScope.
    // That the attempts before were trained with: every worker's must be the
    // same. Absent: workers decide (see StartQuorum).
    std::optional<DataFacts> data;
    // Told once where the attempt begins, with the lock held: must not block.
    // What it finds wrong later goes to Fail. May be null.
    std::function<void(const Beginning&)> on_begin;
    // Null: no checkpoints. Must outlive the coordinator.
    CheckpointSink* checkpoints = nullptr;
  };
  using Clock = std::function<absl::Time()>;
  // Gets lines for metrics.jsonl, in order, with the lock held: must not block.
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

  enum class Ending {
    kNone,      // Not yet.
    kTrained,   // Everything is computed, and every worker gone.
    kDrained,   // Drain is done.
    kGoesBack,  // A server was lost: the next attempt is to begin.
    kDamaged,   // The same, but not from the checkpoint of Options::resume.
    kFailed,    // See status().
  };
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
  // What ran and how it went, without the weights' digest; complete when all
  // have said farewell.
  nlohmann::ordered_json Summary() const ABSL_LOCKS_EXCLUDED(mu_);
  // host:port by shard; that of shard 0 is empty.
  std::vector<std::string> server_addresses() const ABSL_LOCKS_EXCLUDED(mu_);
  // Fixed when the workers agree (see StartQuorum); absent before.
  std::optional<ArenaLayout> layout() const ABSL_LOCKS_EXCLUDED(mu_);
  // What a checkpoint of the finished model says, but for its files. To be
  // called when the attempt has ended as kTrained.
  CheckpointManifest FinalManifest() const ABSL_LOCKS_EXCLUDED(mu_);
  // The checkpoint's folder, if all was computed before this attempt began.
  std::string complete_checkpoint() const;
  // Of the finished model; 0 before the first worker was ready.
  int64_t final_version() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void OnHeartbeat(Member* member, const Heartbeat& heartbeat)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status OnReady(Member* member, const Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether it has the model and the data that the job goes by, if these are
  // decided.
  absl::Status CheckReady(const Ready& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes over what workers have agreed on, and lets those go that have
  // something else. An error has failed the job.
  absl::Status AdoptIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Adopt(const Ready& ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The worker cannot take part, and is told so: the others go on without it.
  void RefuseWorker(int64_t incarnation, const absl::Status& told,
                    const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status OnSums(int shard, const StepSums& sums)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the attempt after a checkpoint.
  void OnLeaving(int shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LetServerLeave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Stops the job, or tells of the step that is left out.
  void OnNonfinite(const JobProgress::NonfiniteGradient& gradient)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status OnEvaluation(const EvaluationReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnFailure(const Member& member, const Failure& failure)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AdmitWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OpenWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AssignWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells workers which steps they may compute (asynchronous mode).
  void GrantStepLeases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A worker is no member of the job any more, which is being computed.
  void OnWorkerLost(int64_t incarnation, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Begins again, from the checkpoint that was just made, with workers that
  // have come meanwhile.
  void WidenGroup() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // To all servers.
  void OrderSnapshot(const ServerOrder& order)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FinishIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets the worker and, unless `status` is OK, closes its connection with
  // it.
  void RemoveWorker(int64_t incarnation, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemoveWorkers(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // It is no member any more.
  void Forget(int64_t incarnation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FailLocked(const absl::Status& reason, int exit_code)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // There was nothing left to compute in the checkpoint that this attempt goes
  // on from.
  bool Complete() const;
  void FinishComplete() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FlushMetrics() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends the attempt, if it has not ended: tells everybody to join again.
  void GoBack(Ending ending, const absl::Status& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendAway(Ending ending, const absl::Status& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Ending EndingLocked() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Takes the checkpoint that somebody waits for, if no worker is left.
  void RunCheckpointsAtRest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Does for checkpoints what can be done now, and what they were awaited for.
  void RunCheckpoints() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Does without the worker that holds a step up for too long; where it cannot
  // be told who does, lets everybody begin again.
  void EndStall(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const BeginningOptions beginning_;
  const bool asynchronous_;
  const bool all_reduce_;
  const bool gives_norms_;  // Servers wait for every round's.
  const bool replicates_;
  const Clock clock_;
  const MetricsSink metrics_;

  mutable absl::Mutex mu_;
  StatusReply::Phase phase_ ABSL_GUARDED_BY(mu_) = StatusReply::WAITING;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  int failure_exit_code_ ABSL_GUARDED_BY(mu_) = 0;

  Membership membership_ ABSL_GUARDED_BY(mu_);
  ServerRoster servers_ ABSL_GUARDED_BY(mu_);

  StartQuorum quorum_ ABSL_GUARDED_BY(mu_);
  // From what it has decided.
  std::string data_owner_ ABSL_GUARDED_BY(mu_);  // Decision::whose.
  std::optional<ArenaLayout> layout_ ABSL_GUARDED_BY(mu_);
  std::optional<JobProgress> progress_ ABSL_GUARDED_BY(mu_);
  // In asynchronous mode.
  std::optional<StepLeases> step_leases_ ABSL_GUARDED_BY(mu_);
  // In an all-reduce: what workers are told to begin with, and who they are.
  CoordinatorOrder open_ ABSL_GUARDED_BY(mu_);
  AllReduceGroup group_ ABSL_GUARDED_BY(mu_);
  // The worker that brings version 0, until somebody is synced; 0: none.
  int64_t initializer_ ABSL_GUARDED_BY(mu_) = 0;
  bool initialized_ ABSL_GUARDED_BY(mu_) = false;
  bool from_memory_ ABSL_GUARDED_BY(mu_) = false;
  bool memory_failed_ ABSL_GUARDED_BY(mu_) = false;
  // When the first worker was synced; when the last one left.
  absl::Time first_synced_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  absl::Time alone_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  absl::Time finishing_since_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();
  int most_workers_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t workers_lost_ ABSL_GUARDED_BY(mu_) = 0;
  // Because other shares were faster.
  int64_t reassignments_by_speed_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<ProcessReport> finished_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> notices_ ABSL_GUARDED_BY(mu_);
  std::string last_refusal_ ABSL_GUARDED_BY(mu_);

  // From Adopt on.
  std::optional<CheckpointDriver> checkpoints_ ABSL_GUARDED_BY(mu_);
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<int> leaving_ ABSL_GUARDED_BY(mu_);  // A shard.
  Ending gone_back_ ABSL_GUARDED_BY(mu_) = Ending::kNone;
  int workers_at_ending_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Time servers_missing_since_ ABSL_GUARDED_BY(mu_);
  absl::Time last_tick_ ABSL_GUARDED_BY(mu_);
  absl::Time stall_ended_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_COORDINATOR_H_
