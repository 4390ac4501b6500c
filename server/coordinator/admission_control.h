// Admits servers and workers to an attempt.
#ifndef TRIBUTARY_SERVER_COORDINATOR_ADMISSION_CONTROL_H_
#define TRIBUTARY_SERVER_COORDINATOR_ADMISSION_CONTROL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/peers.h"
#include "server/coordinator/training.h"
#include "server/coordinator/work_assignment.h"
#include "server/membership/membership.h"
#include "server/membership/refusals.h"
#include "server/membership/server_roster.h"
#include "server/membership/start_quorum.h"

namespace tributary {

// Leads an attempt (one run of the protocol; a job consists of one or more
// attempts) from its first connection to the start of training, and workers
// that join later to their first assignment:
//
//   1. Servers enlist (join the attempt). When all servers have enlisted, the
//      workers that have joined are admitted.
//   2. Workers open their data, build the model and report Ready. When enough
//      workers agree on the model and the data (see StartQuorum), the attempt
//      is prepared: the servers are told at which version to begin. Workers
//      with a different model or different data are refused.
//   3. When all servers are configured (and, with recovery.journal, have
//      replicated their state), the workers receive the order Open: they
//      connect to all servers and fetch the weights. In a new job, one worker
//      initializes the weights first. In a pipeline, workers connect when they
//      receive the order Stage, and each initializes the weights of its stages.
//   4. Workers report Synced when they have all weights. Training begins when
//      enough of StartQuorum::awaited() have (WorkAssignment::EnoughSynced), or
//      when the start timeout has passed since the first one reported it.
//
// See Attempt for thread safety and errors.
class AdmissionControl {
 public:
  // All arguments must outlive this object.
  AdmissionControl(Attempt* attempt, WorkAssignment* assignment,
                   Training* training, Peers* peers);

  // ---- Workers.

  // Adds a worker that asks to join. Returns its incarnation, a number that
  // identifies this membership, or the error with which the caller must end the
  // worker's connection: ResourceExhausted if the job has the maximum number of
  // workers, or an error of AttemptPhase::CheckWorkerMayJoin.
  absl::StatusOr<int64_t> AddWorker(const Join& join, WorkerLink* link);
  absl::Status OnReady(Member* member, const Ready& ready);
  absl::Status OnSynced(Member* member, const Synced& synced);
  // Handles an error from which a worker cannot recover. Removes the worker if
  // its exit code says that a new process can take its place. Otherwise:
  // - If the worker was ready and training has not begun, fails the job. During
  //   training, removes the worker or, if there is no other worker, fails the
  //   job.
  // - If the worker was not ready, removes it. Then fails the job if training
  //   has not begun, no other worker is left, and all expected workers were
  //   refused.
  void OnFailure(const Member& member, const Failure& failure);
  // Removes a worker that has violated the protocol, with `reason`. Servers
  // drop its contributions to steps that are not complete, and other workers
  // compute its micro-batches. Only tells the servers if the worker is no
  // longer a member.
  void Expel(int64_t incarnation, const absl::Status& reason);
  // Removes a worker because others have waited for it for too long. The worker
  // may join again. `line`, which names the worker, is for the log.
  void Dismiss(int64_t incarnation, const std::string& line);
  // Discards the state of a worker that is no longer a member. If this worker
  // had to initialize the weights and has not done so, orders a different
  // worker to do it.
  void RemoveWorker(int64_t incarnation);

  // ---- Servers.

  absl::Status AddServer(const Enlist& enlist, ServerLink* link);
  void OnConfigured(int shard);
  void OnReplicated(int shard);
  // Ends the attempt, because the server of `shard` cannot replicate its state
  // or cannot read the replica of its state. No effect after training.
  void OnReplicationFailure(int shard, const std::string& message);

  // ---- Actions that wait for a condition. Call them several times a second.

  // Once enough workers agree on the model and the data, tells the servers at
  // which version to begin, and refuses workers with a different model or
  // different data. If it returns an error, it has failed the job with this
  // error.
  absl::Status PrepareIfDue();
  // Dismisses the worker that was asked to initialize the weights if it has not
  // done so within the stall timeout. If the servers have the weights, but no
  // worker has reported Synced within the stall timeout, dismisses the workers
  // that were asked to fetch them.
  void EndWaits();
  // Begins training if it has not begun, and enough workers are synced (have
  // all weights) or the time to wait for more has passed; see item 4 of the
  // class comment.
  void StartIfDue();

  // Returns true if at least one worker has reported Synced in this attempt,
  // which means that the worker has all weights.
  bool has_trained() const { return first_synced_ != absl::InfiniteFuture(); }
  // Returns true if the attempt failed to begin from the in-memory replicas
  // (copies of a server's state in the memory of a different server).
  bool memory_failed() const { return memory_failed_; }
  // The peers that were refused. `last` is about a worker that was removed for
  // one of the following reasons: it had a different model or different data,
  // it failed before it was ready, its device failed, it violated the protocol,
  // or others waited for it for too long.
  Refusals& refusals() { return refusals_; }

 private:
  void AdmitWaiting();
  void OpenWaiting();
  // Returns the error of CheckData or CheckModel if the worker's data or model
  // differ from the job's. Returns OK if the job's are not known yet.
  absl::Status CheckReady(const Ready& ready) const;
  absl::Status Prepare(const Ready& ready);
  void SetInitialized();
  // Removes the worker and closes its connection with status `told`. `line`,
  // which names the worker and the reason, is for the log. The job continues
  // without the worker.
  void RefuseWorker(int64_t incarnation, const absl::Status& told,
                    const std::string& line);

  Attempt& attempt_;
  WorkAssignment& assignment_;
  Training& training_;
  Peers& peers_;
  StartQuorum quorum_;
  // The workers that have the job's model and data, as messages name them; see
  // StartQuorum::Decision::whose.
  std::string data_owner_;
  // The order (Open) that tells workers to connect to the servers.
  CoordinatorOrder open_;
  // Incarnation (the result of AddWorker) of the worker that initializes the
  // weights (version 0), or 0 if there is none.
  int64_t initializer_ = 0;
  absl::Time initializer_since_;
  // True if the servers have the weights that training begins with, as their
  // heartbeats, or a worker that did not initialize them, report.
  bool initialized_ = false;
  absl::Time initialized_since_;
  std::vector<bool> stored_;  // See Beginning.
  bool memory_failed_ = false;
  absl::Time first_synced_ = absl::InfiniteFuture();
  Refusals refusals_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ADMISSION_CONTROL_H_
