// The coming and going of an attempt's workers and servers.
#ifndef TRIBUTARY_SERVER_COORDINATOR_PEERS_H_
#define TRIBUTARY_SERVER_COORDINATOR_PEERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/work_assignment.h"
#include "server/membership/membership.h"

namespace tributary {

// Keeps the workers and servers of an attempt: records their heartbeats, and
// handles their loss. See Attempt for thread safety.
class Peers {
 public:
  // `attempt` and `assignment` must outlive this object. When a worker ceases
  // to be a member, `on_forget` is called with its incarnation (the number that
  // it got when it joined).
  Peers(Attempt* attempt, WorkAssignment* assignment,
        std::function<void(int64_t)> on_forget)
      : attempt_(*attempt),
        assignment_(*assignment),
        on_forget_(std::move(on_forget)),
        alone_since_(attempt->now()) {}

  // ---- Workers.

  // Updates the statistics of the attempt after a worker has become a member.
  void OnJoined(const Member& member);
  void OnHeartbeat(Member* member, const Heartbeat& heartbeat);
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

  // Handles an error from which a server cannot recover. If the checkpoint that
  // the attempt began from is damaged, ends the attempt, and later attempts do
  // not use that checkpoint. Otherwise fails the job.
  void OnServerFailure(int shard, const Failure& failure);
  // Handles the totals in a server's heartbeat.
  void OnServerStatistics(int shard, const ProcessStatistics& statistics);
  // Handles the loss of a server's connection. Ends the attempt, because the
  // server's part of the state is lost. If training is complete but no
  // checkpoint has the final version, fails the job instead, because workers
  // have begun to leave. Only records the loss if the attempt has already
  // ended, or if training is complete and the next server holds a replica.
  void OnServerGone(int shard);
  // Handles the expiry of a server's lease: ends its connection and the
  // attempt.
  void OnServerExpired(int shard);

  // Finishes, without training, an attempt that is complete(). No effect unless
  // the phase is kWaiting, so only the first call has an effect.
  void FinishComplete();

 private:
  // Returns true if training has reached the last version, and it can be saved
  // without the workers.
  bool HasLastVersion() const;
  Attempt& attempt_;
  WorkAssignment& assignment_;
  const std::function<void(int64_t)> on_forget_;
  absl::Time alone_since_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_PEERS_H_
