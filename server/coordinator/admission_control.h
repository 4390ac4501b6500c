// How servers and workers come to take part in an attempt.
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

// Brings an attempt from its first peer to training, and workers that join
// later to their first assignment:
//
//   1. Servers enlist. When all have, workers that have joined are admitted.
//   2. Workers open their data and build the model, and are ready. Enough that
//      agree (see StartQuorum) fix both: the attempt is prepared, and servers
//      are told where to begin. Workers with something else are refused.
//   3. When servers are configured (with recovery.journal, replicated too),
//      workers are opened: they connect to all servers, and fetch the weights.
//      One of them may have to make these first.
//   4. Workers are synced. When enough are, or the start timeout has passed,
//      training begins.
//
// Acts on the attempt, which must outlive it; threads and errors are as there.
class AdmissionControl {
 public:
  explicit AdmissionControl(Attempt* attempt);

  // ---- Workers.
  // The new worker's incarnation.
  absl::StatusOr<int64_t> AddWorker(const Join& join, WorkerLink* link);
  absl::Status OnReady(Member* member, const Ready& ready);
  absl::Status OnSynced(Member* member);
  // The worker cannot go on, and leaves.
  void OnFailure(const Member& member, const Failure& failure);
  // The worker is no member any more.
  void Forget(int64_t incarnation);

  // ---- Servers.
  absl::Status AddServer(const Enlist& enlist, ServerLink* link);
  void OnConfigured(int shard);
  void OnReplicated(int shard);
  // It cannot have its state kept, or read what another one keeps.
  void OnReplicationFailure(int shard, const std::string& message);

  // ---- Waits, to be looked after several times a second.
  // Prepares the attempt by what workers have agreed on, and lets those go that
  // have something else. An error has failed the job.
  absl::Status PrepareIfDue();
  // Begins training.
  void StartIfDue();

  // Some worker has had weights: the attempt got as far as training.
  bool has_trained() const { return first_synced_ != absl::InfiniteFuture(); }
  // The attempt was to begin from memory, and could not.
  bool memory_failed() const { return memory_failed_; }
  // Of the last worker that cannot take part; empty: there was none.
  const std::string& last_refusal() const { return last_refusal_; }
  // A worker has broken the protocol, or may not join: its connection ends.
  void NoteRefusal(const std::string& who, const absl::Status& status);
  // Lines for the log since the last call: who cannot take part, and why.
  std::vector<std::string> TakeNotices();

 private:
  void AdmitWaiting();
  void OpenWaiting();
  // Whether it has the model and the data that the job goes by, if these are
  // decided.
  absl::Status CheckReady(const Ready& ready) const;
  absl::Status Prepare(const Ready& ready);
  // The worker cannot take part, and is told so: the others go on without it.
  void RefuseWorker(int64_t incarnation, const absl::Status& told,
                    const std::string& reason);

  Attempt& attempt_;
  const BeginningOptions beginning_;

  StartQuorum quorum_;
  // From what it has decided.
  std::string data_owner_;  // Decision::whose.
  // What workers are opened with.
  CoordinatorOrder open_;
  // The worker that brings version 0, until somebody is synced; 0: none.
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
