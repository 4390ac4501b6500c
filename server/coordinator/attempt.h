// One attempt at a job: its options, its state and its transitions.
#ifndef TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_H_
#define TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/parameters/arena_layout.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/attempt_checkpoints.h"
#include "server/coordinator/attempt_phase.h"
#include "server/coordinator/beginning.h"
#include "server/membership/member_secrets.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"
#include "server/progress/job_progress.h"
#include "server/progress/run_summary.h"
#include "server/run_mode/run_mode.h"

namespace tributary {

// The options of an attempt: one run of the protocol. A job consists of one or
// more attempts.
struct AttemptOptions {
  JobSpec job;  // A valid result of ResolveJob.
  int servers = 1;
  // The number of workers that the attempt waits for, and the number that may
  // come, if it is larger; see StartQuorum.
  int expected_workers = 1;
  int most_workers = 1;
  // Maximum number of workers at a time.
  int max_workers = kDefaultLimits.workers;
  absl::Duration start_timeout = absl::Seconds(60);
  absl::Duration lease = absl::Seconds(10);
  absl::Duration no_worker_timeout = absl::Seconds(60);
  // How long the job may be without one of its servers before the job fails.
  absl::Duration no_server_timeout = absl::Minutes(10);
  // A step counts as stalled if it takes this long and is unusually slow for
  // the job, even if all processes send heartbeats.
  absl::Duration stall_timeout = absl::Minutes(10);
  int64_t attempt = 1;
  // The key of the attempt's MemberSecrets, which must differ in each attempt.
  std::string secret_key;
  std::optional<ResumePoint> resume;
  // True if the attempt may begin from this run's in-memory replicas (copies of
  // a server's state in the memory of a different server). It does so if the
  // job has recovery.journal and the replicas are newer than `resume`.
  bool resume_from_memory = false;
  std::string run;  // ID of the run; see JournalScope.
  // Facts about the data that the earlier attempts used (numbers of samples,
  // fingerprint); every worker must have the same data. If absent, the workers
  // decide which data the job uses (see StartQuorum).
  std::optional<DataFacts> data;
  // Called at most once, when the coordinator has decided at which version, and
  // from which state, the attempt begins. Called with the coordinator's lock
  // held: must not block and must not call the coordinator on the calling
  // thread. May be null.
  std::function<void(const Beginning&)> on_begin;
  // Receives the events of the job (see JobEvent), in order. Called with the
  // coordinator's lock held: must not block and must not call the coordinator
  // on the calling thread. May be null.
  std::function<void(const JobEvent&)> on_event;
  // Creates and commits checkpoints. If null, no checkpoints are taken. Must
  // outlive the coordinator.
  CheckpointCommitter* checkpoints = nullptr;
};

// The state of an attempt, and its transitions during training: assigns work,
// completes steps, takes checkpoints, and handles the loss of peers.
// AdmissionControl leads an attempt to the start of training and Watchdog
// enforces timeouts; both call this object.
//
// Not thread-safe; no method blocks. The Coordinator holds its lock during each
// call. WorkerLinks, ServerLinks, the CheckpointCommitter and the callbacks are
// therefore called with that lock held. If a method returns an error, the
// caller ends the connection of the peer whose message it was handling. Errors
// that end the attempt are passed to Fail, RollBack or GiveUp, which close all
// connections.
class Attempt {
 public:
  using Clock = std::function<absl::Time()>;
  // Receives the lines of metrics.jsonl in order. Must not block.
  using MetricsSink = std::function<void(const std::string& line)>;

  // When a worker ceases to be a member, `on_forget` is called with its
  // incarnation (the number that it got when it joined).
  Attempt(const AttemptOptions& options, Clock clock, MetricsSink metrics,
          std::function<void(int64_t)> on_forget);

  // ---- Parts of the attempt.

  const AttemptOptions& options() const { return options_; }
  absl::Time now() const { return clock_(); }
  const AttemptPhase& phase() const { return phase_; }
  Membership& membership() { return membership_; }
  const Membership& membership() const { return membership_; }
  ServerRoster& servers() { return servers_; }
  const ServerRoster& servers() const { return servers_; }
  RunMode& mode() { return *mode_; }
  // Returns the number of workers that were lost.
  int64_t workers_lost() const { return workers_lost_; }
  // Returns the number of leases of workers and servers that have expired.
  int64_t lease_expiries() const { return lease_expiries_; }
  // Returns the lease of workers and servers, which is short while the job is
  // being stopped.
  absl::Duration lease() const;
  // Returns true if servers keep in-memory replicas of each other's state.
  bool keeps_replicas() const { return options_.job.recovery().journal(); }
  // The layout of the model's parameters and the progress of the job are absent
  // until Prepare or FinishComplete is called.
  const std::optional<ArenaLayout>& layout() const { return layout_; }
  const std::optional<JobProgress>& progress() const { return progress_; }

  // ---- The beginning.

  // Sets the version and the state at which the attempt begins, and the model
  // and the data that the workers agreed on. `layout` is the layout of this
  // model, and `ready` is the report of a worker that has this model and data.
  void Prepare(ArenaLayout layout, const Ready& ready,
               const Beginning& beginning);
  // Begins training. Call it after Prepare.
  void Train();
  // Returns true if the attempt resumes from a checkpoint of the finished
  // model, so that no step is left to compute.
  bool complete() const;
  // Finishes, without training, an attempt that is complete(). No effect unless
  // the phase is kWaiting, so only the first call has an effect.
  void FinishComplete();

  // ---- Workers.

  // Updates the statistics of the attempt after a worker has become a member.
  void OnJoined(const Member& member);
  void OnHeartbeat(Member* member, const Heartbeat& heartbeat);
  // Assigns all micro-batches of a step, and all pieces of each evaluation (the
  // parts into which the held-out data are divided), to the synced workers
  // (those that have all weights), unless the run mode keeps the existing
  // assignment (see RunMode::Assign). Each assignment sends an order to every
  // worker. With many workers, this method therefore assigns work at most once
  // in kAssignInterval, for example when many workers are lost at the same
  // time, and leaves other assignments to the next AssignWorkIfDue.
  void AssignWork();
  // Assigns the work if AssignWork has left the assignment to this method. Call
  // it at least every kAssignInterval.
  void AssignWorkIfDue();
  static constexpr absl::Duration kAssignInterval = absl::Milliseconds(100);
  absl::Status OnStepRequest(const Member& member);
  absl::Status OnWorkerSums(int64_t incarnation, const StepSums& sums);
  void OnSaved(int64_t incarnation, const Saved& saved);
  absl::Status OnEvaluation(const Member& member,
                            const EvaluationReport& report);
  void OnFarewell(const ProcessReport& process) {
    farewells_.push_back(process);
  }
  // Removes the worker from the attempt and, unless `status` is OK, closes its
  // connection with `status`. During training, also calls OnWorkerLost. No
  // effect if the worker was removed before.
  void RemoveWorker(int64_t incarnation, const absl::Status& status);
  // Removes all workers; see RemoveWorker.
  void RemoveWorkers(const absl::Status& status);
  // Ends the step leases of a worker that is no longer a member, removes the
  // worker from the StepBreakdown, and calls `on_forget`.
  void ForgetWorker(int64_t incarnation);
  // Assigns the work of a worker that was lost during training to other
  // workers. Ends the attempt instead if the run mode cannot continue without
  // the worker. `name` is Member::Name of the worker.
  void OnWorkerLost(int64_t incarnation, const std::string& name);
  // Handles the expiry of a worker's lease: removes the worker.
  void OnWorkerExpired(const Member& member);
  // Returns the time since which the attempt has had no worker: when the only
  // remaining worker was removed or, if no worker has joined, when the attempt
  // began. Returns absl::InfiniteFuture() while there is a worker.
  absl::Time alone_since() const { return alone_since_; }

  // ---- Servers.

  absl::Status OnSums(int shard, const StepSums& sums);
  // A worker that the caller must expel (see AdmissionControl::Expel), because
  // its loss was not finite although the gradient was.
  struct Offender {
    int64_t incarnation = 0;
    absl::Status reason;
  };
  // Returns the worker that OnSums or OnWorkerSums has found, once.
  std::optional<Offender> TakeOffender() {
    return std::exchange(offender_, std::nullopt);
  }
  absl::Status OnSnapshot(int shard, const SnapshotReport& report);
  // Handles an error from which a server cannot recover. If the checkpoint that
  // the attempt began from is damaged, ends the attempt, and later attempts do
  // not use that checkpoint. Otherwise fails the job.
  void OnServerFailure(int shard, const Failure& failure);
  // Handles the totals in a server's heartbeat.
  void OnServerStatistics(int shard, const ProcessStatistics& statistics);
  // Handles a heartbeat of a server. `version` is the newest version that all
  // chunks of the server have. If training waits only for this version, ends
  // training.
  void OnServerVersion(int shard, int64_t version);
  // Ends the attempt because the server was asked to stop. During training,
  // first takes a checkpoint if checkpoints are enabled. No effect after
  // training.
  void OnLeaving(int shard);
  // Handles the loss of a server's connection. Ends the attempt, because the
  // server's part of the state is lost. If training is complete but no
  // checkpoint has the final version, fails the job instead, because workers
  // have begun to leave. Only records the loss if the attempt has already
  // ended, or if training is complete and the next server holds a replica.
  void OnServerGone(int shard);
  // Handles the expiry of a server's lease: ends its connection and the
  // attempt.
  void OnServerExpired(int shard);

  // ---- Checkpoints.

  void OnCheckpointFolder(const absl::StatusOr<std::string>& folder);
  void OnCheckpointCommitted(const absl::Status& status);
  // Executes the checkpoint actions that are due, and then whatever has waited
  // for the checkpoint: further steps, the end of training, a requested stop of
  // the job, or the departure of a server. No effect unless training is under
  // way.
  void RunCheckpoints();
  // If training is under way and no worker is synced (has all weights), takes
  // the checkpoint that Drain or OnLeaving has requested, at the current
  // version.
  void RunCheckpointsWhileIdle();

  // ---- The ending.

  // Fails the job and closes all connections. `exit_code` becomes
  // StatusReply::failure_exit_code. No effect if the job has already failed,
  // was stopped or is done. An attempt that has ended with RollBack or GiveUp
  // can still fail.
  void Fail(const absl::Status& reason, int exit_code);
  // Fails the job because of `failure`, which a peer reported. The exit code in
  // `failure` becomes the job's exit code. `reason` is the message for users;
  // it names the peer and the error.
  void FailAsReported(const Failure& failure, const std::string& reason);
  // Ends the attempt with `ending` (kRolledBack or kDamaged), and tells all
  // peers to join the next attempt. No effect if ending() is not kNone.
  void RollBack(AttemptEnding ending, const absl::Status& reason);
  // Ends the attempt as kFailed, because a newer coordinator has taken over the
  // job, and tells all peers to join again. No effect in phases kDone,
  // kRecovering, kDrained and kFailed.
  void GiveUp(const absl::Status& reason);
  // Stops the job before its end. During training, first takes one more
  // checkpoint if checkpoints are enabled. No effect after training.
  void Drain();
  // Enters phase kDone if training is complete, and tells servers that the job
  // is done or was stopped. If it was stopped, also tells the workers and
  // closes their connections.
  void Conclude();
  AttemptEnding ending() const {
    return phase_.ending(/*workers_left=*/membership_.count() > 0);
  }
  // Returns the time at which workers were told that training is complete.
  // Returns absl::InfiniteFuture() if they have not been told.
  absl::Time finishing_since() const { return finishing_since_; }
  // Returns the number of workers at the moment at which RollBack or GiveUp
  // ended the attempt. Returns 0 if neither has ended it.
  int workers_at_ending() const { return workers_at_ending_; }

  // ---- Reports.

  StatusReply Describe() const;
  // Implements Coordinator::Summary.
  std::string Summary(const std::string& weights_sha256) const;
  // Implements Coordinator::FinalManifest.
  CheckpointManifest FinalManifest() const;

 private:
  // Returns the first step that must not be leased yet; used only in mode
  // `asynchronous` (see RunMode::GrantSteps). The limit makes all workers wait
  // at two kinds of versions: at a version to be evaluated, until the
  // evaluation is complete; and at the version of a checkpoint, until all
  // servers have copied it.
  int64_t StepLimit() const;
  // Returns true if the newest evaluation has ended training (see StopSpec).
  bool stops_early() const;
  // Tells workers that the evaluation of the newest evaluated version is
  // complete, so that they compute the steps after that version. Does nothing
  // while servers still have to copy the version because it is the best so far,
  // or if the job stops early.
  void AnnounceEvaluated();
  // Passes `order`, which orders the servers to write their parts of a
  // checkpoint, to RunMode::OrderSnapshot.
  void OrderSnapshot(const ServerOrder& order);
  void GrantSteps();
  // Implements AssignWork, without delay.
  void AssignWorkNow();
  // Completes round `step` (a round is what servers count as one step) after
  // all servers (in an all-reduce, one worker) have reported their sums. `norm`
  // is the norm of the round's mean gradient.
  void OnRound(int64_t step, const GradientNorm& norm);
  // Fails the job or, with on_nonfinite: SKIP, adds a line about the skipped
  // step to metrics.jsonl.
  void OnNonfinite(const JobProgress::NonfiniteGradient& gradient);
  void FinishIfDue();
  // Returns true if waiting longer cannot make the final version safer: no
  // checkpoint is pending and, with recovery.journal, a checkpoint or all
  // replicas contain the version.
  bool FinalVersionIsSafe() const;
  void LetServerLeave();
  void FlushMetrics();
  // Passes an event to AttemptOptions::on_event. `role` and `number` are those
  // of JobEvent.
  void Note(JobEvent::Severity severity, const std::string& kind,
            const std::string& message, const std::string& role = "",
            int number = 0);
  // Closes all connections, because the attempt has ended with RollBack or
  // GiveUp. The status (see JoinAgain) contains `reason` and tells the peers to
  // join again.
  void SendAway(const absl::Status& reason);

  const AttemptOptions options_;
  const Clock clock_;
  const MetricsSink metrics_;
  const std::function<void(int64_t)> on_forget_;

  AttemptPhase phase_;
  Membership membership_;
  ServerRoster servers_;
  const std::unique_ptr<RunMode> mode_;
  const MemberSecrets secrets_;

  // Prepare sets the next three fields; FinishComplete sets layout_ and
  // progress_ only.
  std::optional<ArenaLayout> layout_;
  std::optional<JobProgress> progress_;
  std::optional<AttemptCheckpoints> checkpoints_;

  // The newest version for which workers were told that its evaluation is
  // complete.
  int64_t announced_version_ = 0;
  std::optional<Offender> offender_;
  bool draining_ = false;
  std::optional<int> leaving_;  // Shard of the server that was asked to stop.
  absl::Time alone_since_;
  absl::Time finishing_since_ = absl::InfiniteFuture();
  int workers_at_ending_ = 0;
  // Time of the last call of AssignWorkNow.
  absl::Time assigned_ = absl::InfinitePast();
  // True if AssignWork has left an assignment to AssignWorkIfDue.
  bool assignment_due_ = false;

  // The fields below are values for summary.json.
  int most_workers_ = 0;
  int64_t workers_lost_ = 0;
  int64_t lease_expiries_ = 0;
  // Number of failed checkpoints that were reported as events.
  int64_t checkpoint_failures_ = 0;
  // Number of times that micro-batches were reassigned because the workers'
  // speeds differed.
  int64_t assignments_by_speed_ = 0;
  std::vector<ProcessReport> farewells_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_H_
