// Who takes part, and who computes what: a pure state machine over messages and
// a clock.
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

// Where orders to one worker go.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  // Queues the order. Called with the coordinator's lock held: must not block,
  // nor call the coordinator.
  virtual void Send(const CoordinatorOrder& order) = 0;
  // Ends the connection with this status, after what was sent. Same rules.
  virtual void Close(const absl::Status& status) = 0;
};

struct Member {
  WorkerLink* link = nullptr;
  int64_t incarnation = 0;
  int rank = 0;
  bool ranked = false;  // It asked for that rank.
  std::string host;
  int64_t pid = 0;
  // See Ready.
  std::string device;
  std::string nccl_device;
  absl::Time last_heard;
  // How far it has come: each needs the one before.
  bool admitted = false;
  bool ready = false;
  bool opened = false;
  // Has a whole version of the weights: can be dealt leaves.
  bool synced = false;
  Heartbeat heartbeat;
  WorkerSpeed speed;
  int micro_batches = 0;  // Dealt to it.
  int contributions = 0;  // That these make for each chunk.

  // "worker 3 (host alpha, process 4711)".
  std::string Name() const;
};

// Not thread-safe.
class Membership {
 public:
  // `micro_batches` of the reduction tree; a member not heard of for `lease`
  // has left.
  Membership(int micro_batches, absl::Duration lease);

  struct Admitted {
    int64_t incarnation = 0;
    int rank = 0;
    // The member that had the wanted rank until now: a newer process takes its
    // place.
    std::optional<Member> fenced;
  };
  // Adds a member under a new incarnation. Wanted rank -1: the lowest free one.
  Admitted Add(const Join& join, absl::Time now);

  // Null if there is no such member (any more).
  Member* Find(int64_t incarnation);
  void Remove(int64_t incarnation);
  // Ends all connections with this status; their members stay.
  void Close(const absl::Status& status) const;
  // Members whose lease has ended.
  std::vector<int64_t> Expired(absl::Time now) const;
  // The time `gap` does not count as silence.
  void Forgive(absl::Duration gap);

  bool HasRank(int rank) const;
  // By incarnation.
  const std::map<int64_t, Member>& members() const { return members_; }
  int count() const { return static_cast<int>(members_.size()); }
  int synced_count() const;

  // `waiting_seconds`: how long the member has waited for others so far.
  void AddHeartbeat(Member* member, const Heartbeat& heartbeat,
                    double waiting_seconds, absl::Time now);

  // Deals leaves and evaluation pieces to the synced members in the order of
  // their ranks: contiguous runs, equally long or, where the measured speeds
  // say that it is worth it, such that all are done soon (see
  // ChooseAssignment). A member that has not been measured is taken to be as
  // fast as the median of the others. Members beyond the number of leaves get
  // none and wait as spares, for leaves; with `spares_rest`, for pieces, too.
  // Every call makes a new generation.
  std::map<int64_t, Deal> AssignWork(int64_t pieces, absl::Time now,
                                     bool spares_rest = false);

  // Every member that has leaves has been measured since they were dealt, and
  // others would be faster: AssignWork would pay.
  bool AssignmentIsSlow(absl::Time now) const;

  // Who has leaves and has not done those of `step`, going by the newest
  // heartbeats, while others have: of several, the lowest rank. Null: nobody
  // waits.
  const Member* Straggler(int64_t step) const;

 private:
  // Those who can be dealt leaves, by rank.
  std::vector<const Member*> Active() const;
  // All that have leaves have been measured since they were dealt.
  bool AllFresh() const;
  StepCosts CostsOf(const std::vector<const Member*>& members,
                    absl::Time now) const;

  const int micro_batches_;
  const absl::Duration lease_;
  std::map<int64_t, Member> members_;
  int64_t next_incarnation_ = 1;
  int64_t generation_ = 0;
  // See StepCosts. The largest that was measured lately: the deal that it was
  // measured by may be the reason why it is smaller now.
  double transfer_seconds_ = 0;
  absl::Time transfer_measured_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_MEMBERSHIP_H_
