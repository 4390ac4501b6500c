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
#include "server/coordinator/beginning.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"
#include "server/membership/start_quorum.h"

namespace tributary {

// Takes an attempt from its first connection to the start of training, and
// takes workers that join later to their first assignment:
//
//   1. Servers enlist. When all servers have enlisted, the workers that have
//      joined are admitted.
//   2. Workers open their data, build the model and report Ready. When enough
//      workers agree on the model and the data (see StartQuorum), the attempt
//      is prepared: the servers are told at which version to begin. Workers
//      with a different model or different data are refused.
//   3. When all servers are configured (and, with recovery.journal,
//      replicated), the workers receive Open: they connect to all servers and
//      fetch the weights. In a new job, one worker initializes the weights
//      first.
//   4. Workers report Synced. Training begins when the expected number of
//      workers has done so, or after the start timeout.
//
// Modifies `attempt`, which must outlive this object. Threads and errors: see
// Attempt.
class AdmissionControl {
 public:
  explicit AdmissionControl(Attempt* attempt);

  // ---- Workers.
  // Returns the new worker's incarnation.
  absl::StatusOr<int64_t> AddWorker(const Join& join, WorkerLink* link);
  absl::Status OnReady(Member* member, const Ready& ready);
  absl::Status OnSynced(Member* member);
  // The worker reported an error that it cannot recover from. Removes it.
  void OnFailure(const Member& member, const Failure& failure);
  // Forgets a worker that is no longer a member.
  void Forget(int64_t incarnation);

  // ---- Servers.
  absl::Status AddServer(const Enlist& enlist, ServerLink* link);
  void OnConfigured(int shard);
  void OnReplicated(int shard);
  // The server cannot replicate its state, or cannot read a replica of it.
  void OnReplicationFailure(int shard, const std::string& message);

  // ---- Actions that wait for a condition. Call them several times a second.
  // Prepares the attempt once the workers agree on the model and the data, and
  // refuses workers that have others. If this returns an error, it has failed
  // the job.
  absl::Status PrepareIfDue();
  // Begins training once enough workers are synced.
  void StartIfDue();

  // True if a worker has received weights, so the attempt got as far as
  // training.
  bool has_trained() const { return first_synced_ != absl::InfiniteFuture(); }
  // True if the attempt failed to begin from the in-memory replicas.
  bool memory_failed() const { return memory_failed_; }
  // Why the last refused worker cannot take part. Empty: none was refused.
  const std::string& last_refusal() const { return last_refusal_; }
  // Logs that a peer has broken the protocol, or may not join, and that its
  // connection ends.
  void NoteRefusal(const std::string& who, const absl::Status& status);
  // Returns the log lines since the last call, which name refused workers and
  // the reasons.
  std::vector<std::string> TakeNotices();

 private:
  void AdmitWaiting();
  void OpenWaiting();
  // Returns an error if the worker's model or data differ from the job's. OK
  // while these are undecided.
  absl::Status CheckReady(const Ready& ready) const;
  absl::Status Prepare(const Ready& ready);
  // Closes the worker's connection with `told`. Training continues without it.
  void RefuseWorker(int64_t incarnation, const absl::Status& told,
                    const std::string& reason);

  Attempt& attempt_;
  const BeginningOptions beginning_;

  StartQuorum quorum_;
  // Decision::whose of the quorum's decision.
  std::string data_owner_;
  // The Open order for workers.
  CoordinatorOrder open_;
  // Incarnation of the worker that initializes the weights (version 0), until a
  // worker is synced. 0: none.
  int64_t initializer_ = 0;
  bool initialized_ = false;
  bool from_memory_ = false;
  bool memory_failed_ = false;
  absl::Time first_synced_ = absl::InfiniteFuture();
  std::vector<std::string> notices_;
  std::string last_refusal_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_ADMISSION_CONTROL_H_
