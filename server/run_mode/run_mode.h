// The coordinator's part in one kind of exchange.
#ifndef TRIBUTARY_SERVER_RUN_MODE_RUN_MODE_H_
#define TRIBUTARY_SERVER_RUN_MODE_RUN_MODE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"

namespace tributary {

// Decides what differs between exchanges: which worker computes a step, where
// the state for checkpoints comes from, and what the loss of a worker means.
// The coordinator asks the mode and never which exchange the job has. What
// follows from a fact about the exchange (ExchangeTraits) is an ordinary
// method; every other difference is a virtual one. The defaults are those of
// workers that compute every step together and of servers that keep the state.
//
// A mode serves one attempt. Workers are known by their incarnations. Modes
// send orders to links, and otherwise only answer: the caller ends the attempt
// where an answer asks for it. Not thread-safe; nothing blocks.
class RunMode {
 public:
  // `job`, `membership` and `servers` must outlive the mode.
  RunMode(const JobSpec& job, Membership* membership, ServerRoster* servers)
      : job_(job), membership_(*membership), servers_(*servers) {}
  virtual ~RunMode() = default;
  RunMode(const RunMode&) = delete;
  RunMode& operator=(const RunMode&) = delete;

  // ---- The beginning.
  // Every worker makes or loads the version that training begins with, as the
  // servers would; otherwise servers hold it, or get it from one worker.
  bool workers_load_state() const;
  // Training begins at `version`. Called once, before any method below.
  virtual void Begin(int64_t /*version*/) {}

  // ---- Work.
  // Assigns `pieces` of each evaluation and all leaves anew: to each worker,
  // the orders that tell it so, the Deal first. Empty: the assignment stays.
  virtual std::map<int64_t, std::vector<CoordinatorOrder>> Assign(
      int64_t pieces, absl::Time now);
  // A new assignment would make steps faster.
  bool AssignmentIsSlow(absl::Time now) const;
  // Leases steps below `limit` to workers that have asked for one.
  virtual void GrantSteps(int64_t /*limit*/) {}
  // The step is applied everywhere.
  virtual void OnStepComplete(int64_t /*step*/) {}
  // Servers wait for the norm of every round's gradient.
  bool servers_await_norms() const;

  // ---- Reports of workers. FailedPrecondition: not from this worker, or not
  // in this mode.
  // The worker asks for a lease of one step. ResourceExhausted: it has asked
  // for more than any worker can compute.
  virtual absl::Status RequestStep(const Member& worker);
  // OK: the worker may report the sums of steps in place of server 0.
  virtual absl::Status CheckReportsSums(int64_t worker) const;
  // The worker tells this to the others.
  virtual absl::Status Publish(int64_t worker, const Publication& publication);

  // ---- Loss of workers.
  // The worker is no member any more: its leases and requests end.
  virtual void Forget(int64_t /*worker*/) {}
  // After Forget, if the model is being trained. OK: the worker's share is
  // assigned to others. An error says why the attempt must end instead.
  virtual absl::Status OnWorkerLost(int64_t /*worker*/,
                                    const std::string& /*name*/) {
    return absl::OkStatus();
  }

  // ---- State for checkpoints.
  // The first version that a checkpoint may still be taken at.
  virtual int64_t earliest_checkpoint() const { return 0; }
  // Has servers write the snapshot that `order` describes, at once or when the
  // state is there. `last`: it is of the job's last version.
  virtual void OrderSnapshot(const ServerOrder& order, bool last);
  // A worker has brought its part of the state. What became of the snapshot
  // that waits for it, if it cannot be taken any more.
  virtual std::optional<SnapshotReport> OnSaved(int64_t /*worker*/,
                                                const Saved& /*saved*/) {
    return std::nullopt;
  }
  // `completed` steps are done: orders the snapshot that waits, if its state is
  // there.
  virtual void OrderWaitingSnapshot(int64_t /*completed*/) {}
  // The servers have the state of that version, which is computed.
  virtual bool HasState(int64_t /*version*/) const { return true; }
  // A checkpoint was made, and the job is not at its end. An error says why the
  // next attempt should begin from it now.
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

// Orders that hold one Deal each.
std::map<int64_t, std::vector<CoordinatorOrder>> OrdersFor(
    const std::map<int64_t, Deal>& assignments);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_RUN_MODE_H_
