// An attempt at a job, from its beginning to its ending.
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
#include "server/coordinator/attempt_phase.h"
#include "server/coordinator/beginning.h"
#include "server/coordinator/checkpoint_driver.h"
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
  // Resumes from the in-memory replicas of this run if they are newer than
  // `resume`.
  bool resume_from_memory = false;
  std::string run;  // See JournalScope.
  // The data of the earlier attempts, which every worker must have. Absent:
  // the workers decide (see StartQuorum).
  std::optional<DataFacts> data;
  // Called once, when the attempt begins, with the lock held; must not block.
  // It reports later errors to Fail. May be null.
  std::function<void(const Beginning&)> on_begin;
  // Null: no checkpoints. Must outlive the coordinator.
  CheckpointSink* checkpoints = nullptr;
};

// What an attempt holds, and what happens in it while the model is trained:
// work is assigned, steps end, checkpoints are taken, peers are lost.
// AdmissionControl brings it as far as that, and Watchdog ends what takes too
// long; both act on this object.
//
// Not thread-safe, and nothing blocks: the Coordinator holds its lock during
// each call, and so links, sinks and callbacks are called with it. An error
// that a method returns is the sender's alone and ends its connection; what
// concerns the job goes to Fail or GoBack, which close all connections.
class Attempt {
 public:
  using Clock = std::function<absl::Time()>;
  // Gets lines for metrics.jsonl, in order; must not block.
  using MetricsSink = std::function<void(const std::string& line)>;

  // `on_forget` is told of each worker that is no member any more.
  Attempt(const AttemptOptions& options, Clock clock, MetricsSink metrics,
          std::function<void(int64_t)> on_forget);

  // ---- Its parts.
  const AttemptOptions& options() const { return options_; }
  absl::Time now() const { return clock_(); }
  const AttemptPhase& phase() const { return phase_; }
  Membership& membership() { return membership_; }
  const Membership& membership() const { return membership_; }
  ServerRoster& servers() { return servers_; }
  const ServerRoster& servers() const { return servers_; }
  RunMode& mode() { return *mode_; }
  // Servers keep each other's state in memory.
  bool journals() const { return options_.job.recovery().journal(); }
  // Absent before Prepare.
  const std::optional<ArenaLayout>& layout() const { return layout_; }
  const std::optional<JobProgress>& progress() const { return progress_; }

  // ---- The beginning.
  // Workers have agreed on the model and the data that `ready` tells.
  void Prepare(ArenaLayout layout, const Ready& ready,
               const Beginning& beginning);
  void Train();
  // There was nothing left to compute in the checkpoint that this attempt goes
  // on from.
  bool complete() const;
  // Ends such an attempt, unless it has ended.
  void FinishComplete();

  // ---- Workers.
  // One has become a member.
  void OnJoined();
  void OnHeartbeat(Member* member, const Heartbeat& heartbeat);
  // All leaves and pieces anew, where the run mode wants it.
  void AssignWork();
  absl::Status OnStepRequest(const Member& member);
  absl::Status OnWorkerSums(int64_t incarnation, const StepSums& sums);
  void OnSaved(int64_t incarnation, const Saved& saved);
  absl::Status OnEvaluation(const EvaluationReport& report);
  void OnFarewell(const ProcessReport& process) {
    farewells_.push_back(process);
  }
  // Removes the worker and, unless `status` is OK, closes its connection with
  // it. Harmless when repeated.
  void RemoveWorker(int64_t incarnation, const absl::Status& status);
  void RemoveWorkers(const absl::Status& status);
  // The worker is no member any more.
  void Forget(int64_t incarnation);
  // The same, while training goes on: others take its work over.
  void OnWorkerLost(int64_t incarnation, const std::string& name);
  // Since when there has been no worker; infinite: there is one.
  absl::Time alone_since() const { return alone_since_; }

  // ---- Servers.
  absl::Status OnSums(int shard, const StepSums& sums);
  // Lines for the log since the last call: which workers were refused, and why.
  std::vector<std::string> TakeNotices();
  absl::Status OnSnapshot(int shard, const SnapshotReport& report);
  // It cannot go on: goes back to an earlier checkpoint if its files are
  // damaged, and fails the job otherwise.
  void OnServerFailure(int shard, const Failure& failure);
  // The server was asked to stop: ends the attempt after a checkpoint.
  void OnLeaving(int shard);
  // Ends the attempt unless the job is done: a server's part of the state is
  // gone with it.
  void OnServerGone(int shard);

  // ---- Checkpoints.
  void OnCheckpointFolder(const absl::StatusOr<std::string>& folder);
  void OnCheckpointCommitted(const absl::Status& status);
  // Does for checkpoints what can be done now, and what they were awaited for.
  void RunCheckpoints();
  // Takes the checkpoint that somebody waits for, if no worker is left.
  void RunCheckpointsAtRest();

  // ---- The ending. Once the attempt has ended, none of these changes
  // that, but for a failure while peers are to join again.
  void Fail(const absl::Status& reason, int exit_code);
  // For what a peer has reported; `reason` says whose failure it is.
  void FailAsReported(const Failure& failure, const std::string& reason);
  // Tells everybody to join again.
  void GoBack(AttemptEnding ending, const absl::Status& reason);
  // The same for a coordinator that has failed: another one has the job.
  void GiveUp(const absl::Status& reason);
  // After one more checkpoint, if there are any.
  void Drain();
  // Tells workers and servers that the job is done, or was stopped.
  void Conclude();
  AttemptEnding ending() const {
    return phase_.ending(/*workers_left=*/membership_.count() > 0);
  }
  // When workers were told that all is computed; infinite: not yet.
  absl::Time finishing_since() const { return finishing_since_; }
  // Workers that took part when the attempt ended.
  int workers_at_ending() const { return workers_at_ending_; }

  // ---- Reports.
  StatusReply Describe() const;
  // See Coordinator::Summary.
  std::string Summary(const std::string& weights_sha256) const;
  // See Coordinator::FinalManifest.
  CheckpointManifest FinalManifest() const;

 private:
  // Workers may begin steps below it: everybody waits for an evaluation, or
  // every chunk is to come by a checkpoint's version with the same steps.
  int64_t StepLimit() const;
  void GrantSteps();
  // A round's sums have come from all servers.
  void OnRound(int64_t step, const GradientNorm& norm);
  // Stops the job, or tells of the step that is left out.
  void OnNonfinite(const JobProgress::NonfiniteGradient& gradient);
  // Refuses the worker that sent it.
  void OnNanLoss(const JobProgress::NanLoss& loss);
  void FinishIfDue();
  void LetServerLeave();
  void FlushMetrics();
  // For connections of an attempt that goes back.
  void SendAway(const absl::Status& reason);

  const AttemptOptions options_;
  const Clock clock_;
  const MetricsSink metrics_;
  const std::function<void(int64_t)> on_forget_;

  AttemptPhase phase_;
  Membership membership_;
  ServerRoster servers_;
  const std::unique_ptr<RunMode> mode_;

  // From Prepare on.
  std::optional<ArenaLayout> layout_;
  std::optional<JobProgress> progress_;
  std::optional<CheckpointDriver> checkpoints_;

  std::vector<std::string> notices_;
  bool draining_ = false;
  std::optional<int> leaving_;  // A shard.
  absl::Time alone_since_;
  absl::Time finishing_since_ = absl::InfiniteFuture();
  int workers_at_ending_ = 0;

  // For the summary.
  int most_workers_ = 0;
  int64_t workers_lost_ = 0;
  // Because other shares were faster.
  int64_t assignments_by_speed_ = 0;
  std::vector<ProcessReport> farewells_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_H_
