// One attempt at a job: its options, its state and its end.
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
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/attempt_checkpoints.h"
#include "server/coordinator/attempt_phase.h"
#include "server/coordinator/beginning.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"
#include "server/progress/job_progress.h"
#include "server/progress/untrained_tensors.h"
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

// The final statistics of one process of the job.
struct ProcessReport {
  std::string role;  // "server" or "worker".
  int rank = 0;
  ProcessStatistics statistics;
  // See the fields of ProcessStatus with the same names.
  std::string host;
  int64_t pid = 0;
  std::string release;
  std::string device;
};

// The state of an attempt, which the parts of the Coordinator share:
// AdmissionControl leads the attempt to the start of training, Training
// completes its steps, WorkAssignment assigns them, Peers handles the loss of
// workers and servers, and Watchdog enforces timeouts. Each part can end the
// attempt.
//
// Not thread-safe; no method blocks. The Coordinator holds its lock during each
// call of a part. WorkerLinks, ServerLinks, the CheckpointCommitter and the
// callbacks are therefore called with that lock held. If a method of a part
// returns an error, the caller ends the connection of the peer whose message it
// was handling. Errors that end the attempt are passed to Fail, RollBack or
// GiveUp, which close all connections.
struct Attempt {
  using Clock = std::function<absl::Time()>;

  Attempt(const AttemptOptions& options, Clock clock);

  absl::Time now() const { return clock(); }
  // Returns the lease of workers and servers, which is short while the job is
  // being stopped.
  absl::Duration lease() const;
  // Returns true if the job's workers compute the stages of a pipeline.
  bool in_stages() const { return options.job.parallel().has_pipeline(); }
  // Returns true if servers keep in-memory replicas of each other's state.
  bool keeps_replicas() const { return options.job.recovery().journal(); }
  // Returns true if the attempt resumes from a checkpoint of the finished
  // model, so that no step is left to compute.
  bool complete() const;

  // Passes an event to AttemptOptions::on_event. `role` and `number` are those
  // of JobEvent.
  void Note(JobEvent::Severity severity, const std::string& kind,
            const std::string& message, const std::string& role = "",
            int number = 0);

  // ---- The ending.

  // Fails the job and closes all connections. `exit_code` becomes
  // StatusReply::failure_exit_code. No effect if the job has already failed,
  // was stopped or is done. An attempt that has ended with RollBack or GiveUp
  // can still fail.
  void Fail(const absl::Status& reason, int exit_code);
  // Fails the job because of `failure`, which a peer reported, as
  // EndWithCheckpoint does. The exit code in `failure` becomes the job's exit
  // code. `reason` is the message for users; it names the peer and the error.
  void FailAsReported(const Failure& failure, const std::string& reason);
  // Ends the attempt with `ending` (kRolledBack or kDamaged), and tells all
  // peers to join the next attempt. No effect if ending() is not kNone.
  void RollBack(AttemptEnding ending, const absl::Status& reason);
  // Ends the attempt as kFailed, because a newer coordinator has taken over the
  // job, and tells all peers to join again. No effect in phases kDone,
  // kRecovering, kDrained and kFailed.
  void GiveUp(const absl::Status& reason);
  // During training: closes the connections of all workers, takes a checkpoint
  // of the weights that the servers have, if checkpoints are enabled, and then
  // fails the job with this exit code or, if `exit_code` is absent, rolls the
  // attempt back. In other phases does so at once. No effect after the first
  // call.
  void EndWithCheckpoint(const absl::Status& reason,
                         std::optional<int> exit_code);
  // Ends the attempt if the checkpoint of EndWithCheckpoint is done, or if it
  // cannot be: a server does not answer, or is lost.
  void EndIfSaved(bool server_lost = false);
  // Returns OK if a worker may join; see AttemptPhase::CheckWorkerMayJoin.
  absl::Status CheckWorkerMayJoin() const;
  // Enters phase kDone if training is complete, and tells servers that the job
  // is done or was stopped. If it was stopped, also tells the workers and
  // closes their connections.
  void Conclude();
  AttemptEnding ending() const {
    return phase.ending(/*workers_left=*/membership.count() > 0);
  }

  const AttemptOptions options;
  const Clock clock;

  AttemptPhase phase;
  Membership membership;
  ServerRoster servers;
  const std::unique_ptr<RunMode> mode;

  // The layout of the model's parameters, the progress of the job and its
  // checkpoints. Training::Prepare sets all three; Peers::FinishComplete sets
  // the first two only.
  std::optional<ArenaLayout> layout;
  std::optional<JobProgress> progress;
  std::optional<AttemptCheckpoints> checkpoints;

  // True after a request to stop the job before its end.
  bool draining = false;
  // How the attempt ends when a last checkpoint is taken; see
  // EndWithCheckpoint.
  struct SavedEnding {
    absl::Status reason;
    // The exit code of the failed job; absent if the attempt is rolled back.
    std::optional<int> exit_code;
    absl::Time since;
  };
  std::optional<SavedEnding> saved_ending;
  // The time at which workers were told that training is complete, or at which
  // the newest part of the untrained tensors has arrived.
  absl::Time finishing_since = absl::InfiniteFuture();
  // The tensors of the final model that are no parameters.
  UntrainedTensors untrained;
  // The number of workers at the moment at which RollBack or GiveUp ended the
  // attempt; 0 if neither has ended it.
  int workers_at_ending = 0;

  // The number of workers that were lost, and of leases of workers and servers
  // that have expired.
  int64_t workers_lost = 0;
  int64_t lease_expiries = 0;
  // The number of workers that came when the job was done before the attempt
  // began, and were told so.
  int64_t workers_told_done = 0;

  // The fields below are values for summary.json.
  int most_workers = 0;
  // Number of times that micro-batches were reassigned because the workers'
  // speeds differed.
  int64_t assignments_by_speed = 0;
  std::vector<ProcessReport> farewells;

 private:
  // Closes all connections, because the attempt has ended with RollBack or
  // GiveUp. The status (see JoinAgain) contains `reason` and tells the peers to
  // join again.
  void SendAway(const absl::Status& reason);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ATTEMPT_H_
