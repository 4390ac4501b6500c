// The coordinator's behavior that depends on the kind of exchange.
#ifndef TRIBUTARY_SERVER_RUN_MODE_RUN_MODE_H_
#define TRIBUTARY_SERVER_RUN_MODE_RUN_MODE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"

namespace tributary {

// Implements the decisions that differ between kinds of exchange: which worker
// computes a step, where the state for checkpoints comes from, and what happens
// when a worker is lost. The coordinator calls the mode and does not check the
// kind of exchange. Methods that depend on the kind of exchange only through
// ExchangeTraits are not virtual; all other methods are. The default
// implementations suit modes in which all workers compute every step together
// and servers hold the state.
//
// A mode serves one attempt (one run of the protocol). Workers are identified
// by their incarnations (the numbers that they got when they joined). Modes
// record assignments in `membership`, send orders to workers and servers, and
// have no other side effects. To end the attempt, a method returns an error.
// Not thread-safe; no method blocks.
class RunMode {
 public:
  // `job`, `membership` and `servers` must outlive the mode.
  RunMode(const JobSpec& job, Membership* membership, ServerRoster* servers)
      : job_(job), membership_(*membership), servers_(*servers) {}
  virtual ~RunMode() = default;
  RunMode(const RunMode&) = delete;
  RunMode& operator=(const RunMode&) = delete;

  // ---- The beginning.

  // Returns true if every worker initializes or loads the version that training
  // begins with. Returns false if the servers have that version or receive it
  // from one worker.
  bool workers_load_state() const;
  // Called when a worker reports `ready`. Returns an error if the worker cannot
  // take part, because of the layers of its model. The coordinator refuses the
  // worker with this error.
  virtual absl::Status OnReady(int64_t /*worker*/, const Ready& /*ready*/) {
    return absl::OkStatus();
  }
  // Called once, when the coordinator has decided that training begins at
  // `version`, with the model of `ready`, before any step is assigned or
  // leased. OnReady has returned OK for `ready`.
  virtual void Begin(int64_t /*version*/, const Ready& /*ready*/) {}
  // Divides the model of a pipeline into stages for the opened workers, of
  // which there is at least one. Returns lines for people, which describe the
  // stages, or an error with which the job must fail. Called once, after Begin.
  virtual absl::StatusOr<std::vector<std::string>> ChooseStages() {
    return std::vector<std::string>();
  }
  // Decides which stages of a pipeline the opened workers compute. Returns a
  // Stage for each worker whose stages change, indexed by incarnation. Called
  // after ChooseStages, whenever a worker was opened, has reported Synced, or
  // was lost, until training begins; from then on, Assign includes it.
  virtual std::map<int64_t, std::vector<CoordinatorOrder>> OrderStages(
      absl::Time /*now*/) {
    return {};
  }
  // Called when an opened worker has reported that it has all weights. Returns
  // false if the report is out of date, so that the coordinator ignores it.
  virtual bool OnSynced(const Member& /*worker*/, const Synced& /*synced*/) {
    return true;
  }

  // ---- Work.

  // Reassigns all micro-batches of a step, and the `pieces` pieces into which
  // the held-out data are divided for each evaluation. Returns the orders for
  // each worker, indexed by incarnation. The first order contains the Deal, the
  // message that states the worker's assignment. Returns no orders if the
  // assignment is unchanged.
  virtual std::map<int64_t, std::vector<CoordinatorOrder>> Assign(
      int64_t pieces, absl::Time now);
  // Returns true if a new assignment would make steps sufficiently faster; see
  // Membership::AssignmentIsSlow. Always false in an all-reduce, whose
  // assignment is fixed.
  virtual bool AssignmentIsSlow(absl::Time now) const;
  // Gives leases (rights to compute a step) for steps below `limit` to workers
  // that have requested a step.
  virtual void GrantSteps(int64_t /*limit*/) {}
  // Returns the worker whose part of a step the servers, or other workers, wait
  // for. Returns null if it is not known.
  virtual const Member* Awaited(int64_t step) const;
  // Called when `step` has been applied to all chunks.
  virtual void OnStepComplete(int64_t /*step*/) {}

  // ---- Reports of workers. These methods return FailedPrecondition if the
  // worker may not send the report, or if the mode does not allow it.

  // Adds a request of the worker for a lease of one step. Returns
  // ResourceExhausted if the worker has more open requests than any worker can
  // use.
  virtual absl::Status RequestStep(const Member& worker);
  // Returns OK if the worker may report the StepSums of each step in place of
  // server 0, otherwise FailedPrecondition.
  virtual absl::Status CheckReportsSums(int64_t worker) const;
  // Sends the worker's publication (a message to the whole all-reduce group) to
  // all members of the group. Returns FailedPrecondition unless the job uses
  // all-reduce and the worker is a member.
  virtual absl::Status Publish(int64_t worker, const Publication& publication);

  // ---- Loss of workers.

  // Ends the step leases of a worker that has left, and discards its requests
  // for step leases.
  virtual void RemoveWorker(int64_t /*worker*/) {}
  // Called after RemoveWorker if training is under way. Returns OK if the
  // worker's work can be assigned to other workers, or an error with the reason
  // why the attempt must end.
  virtual absl::Status OnWorkerLost(int64_t /*worker*/,
                                    const std::string& /*name*/) {
    return absl::OkStatus();
  }

  // ---- State for checkpoints.

  // Returns the first version at which a checkpoint may still be taken.
  virtual int64_t earliest_checkpoint() const { return 0; }
  // Orders the servers to write the snapshot that `order` describes, at once or
  // when its state has arrived. `kept` is true if the members of an all-reduce
  // send this version without a request. They do so for the job's last version
  // and, if KeepsEvaluatedVersions returns true, for versions that are
  // evaluated.
  virtual void OrderSnapshot(const ServerOrder& order, bool kept);
  // In an all-reduce, records that a worker has sent its part of the state to
  // the server, or cannot send it. In the second case, returns the report of
  // the failure if the snapshot that OrderSnapshot began needs that part.
  // Otherwise returns nullopt.
  virtual std::optional<SnapshotReport> OnSaved(int64_t /*worker*/,
                                                const Saved& /*saved*/) {
    return std::nullopt;
  }
  // Orders the servers to write the snapshot that OrderSnapshot has left
  // waiting, if its state has arrived and its version is at most `completed`,
  // the number of steps done.
  virtual void OrderWaitingSnapshot(int64_t /*completed*/) {}
  // Returns true if the servers have the weights and the optimizer state of
  // `version`, or of a newer version.
  virtual bool HasState(int64_t /*version*/) const { return true; }
  // Called when a checkpoint was committed and steps remain. Returns OK to
  // continue, or an error with the reason why a new attempt must begin from
  // this checkpoint.
  virtual absl::Status OnCheckpoint() const { return absl::OkStatus(); }

 protected:
  const JobSpec& job() const { return job_; }
  Membership& membership() const { return membership_; }
  ServerRoster& servers() const { return servers_; }

 private:
  const JobSpec& job_;
  Membership& membership_;
  ServerRoster& servers_;
};

// Returns true if the servers of a job wait for the norm of each round's
// gradient before they update weights. A round is one step or, with local SGD,
// several steps of the job.
bool ServersAwaitNorms(const JobSpec& job);

// Returns one order for each worker, which contains the worker's Deal (the
// message that states its work).
std::map<int64_t, std::vector<CoordinatorOrder>> OrdersFor(
    const std::map<int64_t, Deal>& assignments);

// Creates the mode of the job's kind of exchange, or of its pipeline. `job`
// must be a valid result of ResolveJob. All arguments must outlive the mode.
std::unique_ptr<RunMode> CreateRunMode(const JobSpec& job,
                                       Membership* membership,
                                       ServerRoster* servers);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_RUN_MODE_H_
