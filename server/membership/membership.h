// The workers that take part in a job, and what each of them computes. A pure
// state machine over messages and a clock.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_MEMBERSHIP_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_MEMBERSHIP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/assignment.h"
#include "server/membership/worker_speed.h"

namespace tributary {

// Sends orders to one worker.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  // Queues the order. Called with the coordinator's lock held: must not block
  // and must not call the coordinator.
  virtual void Send(const CoordinatorOrder& order) = 0;
  // Ends the connection with this status, after all queued orders. The
  // restrictions of Send apply.
  virtual void Close(const absl::Status& status) = 0;
};

// A worker that takes part in the attempt (one run of the protocol).
struct Member {
  WorkerLink* link = nullptr;
  int64_t incarnation = 0;
  int rank = 0;
  bool ranked = false;  // True if the worker requested this rank.
  std::string host;
  int64_t pid = 0;
  std::string release;  // Release of the worker's program; empty if unknown.
  // See the fields of Ready with the same names.
  std::string device;
  std::string nccl_device;
  std::string stage_address;
  LocalAddress local_stage_address;
  bool has_untrained = false;
  absl::Time last_heard;
  // How far the worker has joined; these become true one after another.
  bool admitted = false;  // The coordinator has sent the order Admission.
  bool ready = false;     // The worker has sent the report Ready.
  bool opened = false;    // The coordinator has sent the order Open.
  // Time since which the worker has been expected to report Synced: when the
  // coordinator sent the order Open or, in a pipeline, Stage.
  absl::Time opened_since = absl::InfiniteFuture();
  // True if the worker has a complete version of the weights, so that
  // micro-batches can be assigned to it. In a pipeline, of the weights of its
  // stages; also true for a spare, which has none.
  bool synced = false;
  Heartbeat heartbeat;  // The newest heartbeat, without its chunk_latency.
  // When a heartbeat has last reported that a further micro-batch was computed.
  absl::Time last_computed = absl::InfinitePast();
  WorkerSpeed speed;
  // The micro-batches that are assigned to the worker: the number of the first
  // one within the step, and how many there are.
  int first_micro_batch = 0;
  int micro_batches = 0;
  // The pieces of the held-out data that are assigned to the worker, and those
  // that were assigned to it before, whose reports may be in flight when work
  // is reassigned.
  struct Pieces {
    int64_t begin = 0;
    int64_t end = 0;
  };
  Pieces pieces;
  std::vector<Pieces> earlier_pieces;
  // Number of contributions (gradient sums) that the worker sends per chunk and
  // step, for the micro-batches that are assigned to it.
  int contributions = 0;

  // Returns true if the piece is, or was before, assigned to the worker.
  bool WasAssignedPiece(int64_t piece) const;
  // Returns, for example, "worker 3 (host alpha, process 4711)".
  std::string Name() const;
};

// The members of an attempt: the workers that take part in it. An attempt is
// one run of the protocol. Not thread-safe.
class Membership {
 public:
  // A step has `micro_batches` micro-batches. A member that sends nothing for
  // `lease` expires.
  Membership(int micro_batches, absl::Duration lease);

  // The result of Add: the new member, and the member that it replaces.
  struct Admitted {
    int64_t incarnation = 0;
    int rank = 0;
    // The former member with the requested rank, which the new member has
    // replaced. Absent if no member had this rank.
    std::optional<Member> fenced;
  };
  // Adds a member with a new incarnation: a number that no member of the
  // attempt has had before. If the requested rank is -1, the member gets the
  // lowest free rank. The caller then sets Member::link.
  Admitted Add(const Join& join, absl::Time now);

  // Returns the member, or null if there is none with this incarnation (the
  // number from Add).
  Member* Find(int64_t incarnation);
  void Remove(int64_t incarnation);
  // Ends the connections of all members with this status, but keeps the
  // members.
  void Close(const absl::Status& status) const;
  // Returns the incarnations (numbers from Add) of the members whose lease has
  // expired.
  std::vector<int64_t> Expired(absl::Time now) const;
  // Makes all leases at most this long.
  void ShortenLease(absl::Duration lease);
  // Extends the leases of all members by `gap`.
  void Forgive(absl::Duration gap);

  bool HasRank(int rank) const;
  // Returns the members, indexed by incarnation.
  const std::map<int64_t, Member>& members() const { return members_; }
  int count() const { return static_cast<int>(members_.size()); }
  int synced_count() const;

  // Stores a heartbeat of `member` and updates its measured speed.
  // `waiting_seconds` is how long the member has waited for other workers so
  // far. Some calls also examine the measurements of all members, to update the
  // estimated transfer time. This takes time in proportion to the number of
  // members, so at most kLooksPerRound calls do it while each member sends one
  // heartbeat.
  void AddHeartbeat(Member* member, const Heartbeat& heartbeat,
                    double waiting_seconds, absl::Time now);

  // Assigns all micro-batches, and the `pieces` pieces in which the held-out
  // data are evaluated, to the synced members in the order of their ranks. Each
  // member gets a contiguous range of micro-batches and of pieces. The lengths
  // of the ranges differ by at most one, unless the measured speeds make other
  // lengths worthwhile (see ChooseAssignment). A member whose speed has not
  // been measured is given the median speed of the other members. If there are
  // more members than micro-batches, some members are spares, which get no
  // micro-batches. With `spares_rest`, the spares are the members with the
  // highest ranks, and get neither evaluation pieces nor a Deal (the message
  // that states the work of a worker). Every call begins a new generation of
  // the assignment. Returns the Deal of each member, indexed by incarnation.
  std::map<int64_t, Deal> AssignWork(int64_t pieces, absl::Time now,
                                     bool spares_rest = false);

  // Begins a new generation of the assignment, and returns its number.
  int64_t NextGeneration() { return ++generation_; }
  // Records that the micro-batches and pieces of `deal` are assigned to
  // `member`.
  void Record(const Deal& deal, absl::Time now, Member* member) const;

  // Returns true if the speed of every member with micro-batches has been
  // measured since the last AssignWork, and a further call of AssignWork would
  // make steps sufficiently faster (see IsSlowAssignment). To save time,
  // returns false unless the last AddHeartbeat examined the measurements of all
  // members.
  bool AssignmentIsSlow(absl::Time now) const;

  // The largest number of times that AddHeartbeat examines the measurements of
  // all members while each member sends one heartbeat.
  static constexpr int kLooksPerRound = 16;

  // Returns when a heartbeat of any member has last reported that a further
  // micro-batch was computed.
  absl::Time last_computed() const;
  // Returns a member with micro-batches that, according to the newest
  // heartbeats, has computed fewer steps than another one; null if there is
  // none.
  const Member* LastInSteps() const;
  // Returns the member that the micro-batch is assigned to, or null.
  const Member* WorkerOf(int micro_batch) const;
  // Returns the member that the piece of an evaluation is assigned to, or null.
  const Member* WorkerOfPiece(int64_t piece) const;
  // Returns the member that, according to the newest heartbeats, has not
  // finished its micro-batches of `step` although other members have finished
  // theirs. If there are several such members, returns the one with the lowest
  // rank. Returns null if no member waits for a different member.
  const Member* Straggler(int64_t step) const;

 private:
  // Returns the members that micro-batches can be assigned to, in the order of
  // their ranks.
  std::vector<const Member*> Active() const;
  // Returns true if the speed of every member that has micro-batches has been
  // measured since the last AssignWork.
  bool AllFresh() const;
  StepCosts CostsOf(const std::vector<const Member*>& members,
                    absl::Time now) const;

  const int micro_batches_;
  absl::Duration lease_;
  std::map<int64_t, Member> members_;
  int64_t next_incarnation_ = 1;
  int64_t generation_ = 0;
  // The largest recent measurement of StepCosts::transfer_seconds. A new
  // measurement replaces it if the new one is at least as large as HalvedByAge
  // of the old one. Smaller measurements are ignored, because the current
  // assignment alone can make a measurement smaller.
  double transfer_seconds_ = 0;
  absl::Time transfer_measured_;
  // Number of heartbeats since AddHeartbeat last examined the measurements of
  // all members.
  int unseen_heartbeats_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_MEMBERSHIP_H_
