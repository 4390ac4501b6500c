// One attempt at a job: its options, its state and its transitions.
#ifndef TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_H_
#define TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/parameters/parameter_table.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/attempt_checkpoints.h"
#include "server/coordinator/attempt_phase.h"
#include "server/coordinator/beginning.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"
#include "server/progress/job_progress.h"
#include "server/progress/run_summary.h"
#include "server/run_mode/run_mode.h"

namespace tributary {

struct AttemptOptions {
  JobSpec job;  // Resolved and valid.
  int servers = 1;
  int expected_workers = 1;
  int max_workers = kDefaultLimits.workers;
  absl::Duration start_timeout = absl::Seconds(60);
  absl::Duration lease = absl::Seconds(10);
  absl::Duration no_worker_timeout = absl::Seconds(60);
  // How long the job may be without one of its servers before it fails.
  absl::Duration no_server_timeout = absl::Minutes(10);
  // A step that runs this long, and unusually long for the job, counts as
  // stalled, even while all processes send heartbeats.
  absl::Duration stall_timeout = absl::Minutes(10);
  int64_t attempt = 1;
  std::optional<ResumePoint> resume;
  // If true, the attempt begins from the in-memory replicas of this run if they
  // are newer than `resume`.
  bool resume_from_memory = false;
  std::string run;  // ID of the run; see JournalScope.
  // The data of the earlier attempts, which every worker must have. If absent,
  // the workers decide (see StartQuorum).
  std::optional<DataFacts> data;
  // Called once, when the attempt begins, with the coordinator's lock held;
  // must not block and must not call the coordinator on the calling thread. May
  // be null.
  std::function<void(const Beginning&)> on_begin;
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
// call, so links, the committer and callbacks are called with that lock held.
// If a method returns an error, the caller ends the connection of the peer
// whose message it was handling. Errors that affect the whole job are passed to
// Fail or RollBack, which close all connections.
class Attempt {
 public:
  using Clock = std::function<absl::Time()>;
  // Receives the lines of metrics.jsonl in order. Must not block.
  using MetricsSink = std::function<void(const std::string& line)>;

  // `on_forget` is called with the incarnation of each worker that stops being
  // a member.
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
  // Returns true if servers keep in-memory replicas of each other's state.
  bool journals() const { return options_.job.recovery().journal(); }
  // The layout and the progress are absent until Prepare or FinishComplete is
  // called.
  const std::optional<ArenaLayout>& layout() const { return layout_; }
  const std::optional<JobProgress>& progress() const { return progress_; }

  // ---- The beginning.

  // Sets where the attempt begins, and the model and the data that the workers
  // agreed on. `layout` is the layout of this model, and `ready` is the report
  // of a worker that has this model and data.
  void Prepare(ArenaLayout layout, const Ready& ready,
               const Beginning& beginning);
  // Begins training. Call it after Prepare.
  void Train();
  // Returns true if the attempt resumes from a checkpoint of the finished
  // model, so that no step is left to compute.
  bool complete() const;
  // Finishes an attempt that is complete() without training. No effect after
  // the first call.
  void FinishComplete();

  // ---- Workers.

  // Updates the statistics of the attempt after a worker has become a member.
  void OnJoined();
  void OnHeartbeat(Member* member, const Heartbeat& heartbeat);
  // Assigns all leaves and evaluation pieces to the current workers, if the run
  // mode allows it.
  void AssignWork();
  absl::Status OnStepRequest(const Member& member);
  absl::Status OnWorkerSums(int64_t incarnation, const StepSums& sums);
  void OnSaved(int64_t incarnation, const Saved& saved);
  absl::Status OnEvaluation(const EvaluationReport& report);
  void OnFarewell(const ProcessReport& process) {
    farewells_.push_back(process);
  }
  // Removes the worker from the attempt and, unless `status` is OK, closes its
  // connection with `status`. No effect if the worker was removed before.
  void RemoveWorker(int64_t incarnation, const absl::Status& status);
  // Removes all workers; see RemoveWorker.
  void RemoveWorkers(const absl::Status& status);
  // Discards what the attempt knows about a worker that is no longer a member,
  // and calls `on_forget`.
  void ForgetWorker(int64_t incarnation);
  // Assigns the work of a worker that was lost during training to other
  // workers. Ends the attempt instead if the run mode cannot continue without
  // the worker. `name` is Member::Name of the worker.
  void OnWorkerLost(int64_t incarnation, const std::string& name);
  // Returns the time at which the attempt lost its last worker, or began if no
  // worker has joined. Returns absl::InfiniteFuture() while there is a worker.
  absl::Time alone_since() const { return alone_since_; }

  // ---- Servers.

  absl::Status OnSums(int shard, const StepSums& sums);
  // Returns the log lines since the last call. Each names a worker that was
  // refused during training, and the reason.
  std::vector<std::string> TakeNotices();
  absl::Status OnSnapshot(int shard, const SnapshotReport& report);
  // Handles an error from which a server cannot recover. If the checkpoint that
  // the attempt began from is damaged, ends the attempt, and the next attempt
  // begins from an earlier checkpoint. Otherwise fails the job.
  void OnServerFailure(int shard, const Failure& failure);
  // Handles a heartbeat with the newest version of the server.
  void OnServerVersion(int shard, int64_t version);
  // Ends the attempt because the server was asked to stop. During training,
  // first takes a checkpoint if checkpoints are enabled.
  void OnLeaving(int shard);
  // Handles the loss of a server's connection. Ends the attempt, because the
  // server's part of the state is lost. Fails the job if training is complete
  // but its last checkpoint is not, because workers have begun to leave. Has no
  // effect if the job is done, or if training is complete and the next server
  // holds a replica.
  void OnServerGone(int shard);

  // ---- Checkpoints.

  void OnCheckpointFolder(const absl::StatusOr<std::string>& folder);
  void OnCheckpointCommitted(const absl::Status& status);
  // Executes the checkpoint actions that are due, and then whatever has waited
  // for the checkpoint: further steps, the end of the job, or the departure of
  // a server.
  void RunCheckpoints();
  // If training is under way and no worker is left, takes a requested
  // checkpoint at the current version.
  void RunCheckpointsWhileIdle();

  // ---- The ending.

  // Fails the job and closes all connections. `exit_code` becomes
  // StatusReply::failure_exit_code. No effect if the job has already failed,
  // was stopped or is done. An attempt that has ended with RollBack can still
  // fail. RollBack, GiveUp and Drain, in contrast, have no effect once the
  // attempt has ended in any way.
  void Fail(const absl::Status& reason, int exit_code);
  // Fails the job for an error that a peer reported. `reason` names the peer.
  void FailAsReported(const Failure& failure, const std::string& reason);
  // Ends the attempt with `ending`, kRolledBack or kDamaged, and tells all
  // peers to join the next one.
  void RollBack(AttemptEnding ending, const absl::Status& reason);
  // Like RollBack, but ends the attempt as kFailed, because another coordinator
  // has taken over the job.
  void GiveUp(const absl::Status& reason);
  // Stops the job before its end, after one more checkpoint if checkpoints are
  // enabled.
  void Drain();
  // Tells servers that the job is done or was stopped. If it was stopped, also
  // tells the workers and closes their connections.
  void Conclude();
  AttemptEnding ending() const {
    return phase_.ending(/*workers_left=*/membership_.count() > 0);
  }
  // Returns the time at which workers were told that training is complete.
  // Returns absl::InfiniteFuture() if they have not been told.
  absl::Time finishing_since() const { return finishing_since_; }
  // Returns the number of workers when the attempt ended with RollBack or
  // GiveUp; otherwise 0.
  int workers_at_ending() const { return workers_at_ending_; }

  // ---- Reports.

  StatusReply Describe() const;
  // Implements Coordinator::Summary.
  std::string Summary(const std::string& weights_sha256) const;
  // Implements Coordinator::FinalManifest.
  CheckpointManifest FinalManifest() const;

 private:
  // Returns the first step that workers must not begin yet. This limit makes
  // all workers wait at two kinds of versions: at a version to be evaluated,
  // until the evaluation is complete; and at the version of a checkpoint, until
  // all servers have copied it.
  int64_t StepLimit() const;
  void GrantSteps();
  // Completes round `step` after all servers have reported their sums. `norm`
  // is the norm of the round's mean gradient.
  void OnRound(int64_t step, const GradientNorm& norm);
  // Fails the job or logs the skipped step, according to the job's
  // on_nonfinite.
  void OnNonfinite(const JobProgress::NonfiniteGradient& gradient);
  // Removes the worker that reported the NaN loss.
  void OnNanLoss(const JobProgress::NanLoss& loss);
  void FinishIfDue();
  // Returns true if the loss of one server cannot make workers compute the last
  // steps again.
  bool FinalVersionIsSafe() const;
  void LetServerLeave();
  void FlushMetrics();
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

  // Set by Prepare. FinishComplete sets layout_ and progress_ only.
  std::optional<ArenaLayout> layout_;
  std::optional<JobProgress> progress_;
  std::optional<AttemptCheckpoints> checkpoints_;

  std::vector<std::string> notices_;
  bool draining_ = false;
  std::optional<int> leaving_;  // Shard of the server that was asked to stop.
  absl::Time alone_since_;
  absl::Time finishing_since_ = absl::InfiniteFuture();
  int workers_at_ending_ = 0;

  // The fields below are values for summary.json.
  int most_workers_ = 0;
  int64_t workers_lost_ = 0;
  // Number of reassignments made because the workers' speeds differed.
  int64_t assignments_by_speed_ = 0;
  std::vector<ProcessReport> farewells_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_H_
