// The coordinator's view of the workers of an all-reduce: their ranks, the
// messages that they exchange through the coordinator, and the state that they
// send to the server.
#ifndef TRIBUTARY_SERVER_RUN_MODE_ALL_REDUCE_GROUP_H_
#define TRIBUTARY_SERVER_RUN_MODE_ALL_REDUCE_GROUP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/membership.h"

namespace tributary {

// The group of the workers that compute in an all-reduce, in one attempt (one
// run of the protocol). Members are identified by their incarnations (the
// numbers that they got when they joined). Not thread-safe.
class AllReduceGroup {
 public:
  // `membership` must outlive the group. The group sends orders only to members
  // that `membership` still contains.
  explicit AllReduceGroup(const Membership* membership)
      : membership_(*membership) {}

  // Forms the group from the workers that have micro-batches, in the order of
  // their micro-batches and, in a pipeline, of their stages. `wanted` is the
  // backend that the job requests; AUTO selects NCCL if each member has a GPU
  // of its own.
  void Begin(const std::map<int64_t, Deal>& assignments,
             AllReduceSpec::Backend wanted);

  bool begun() const { return !members_.empty(); }
  int size() const { return static_cast<int>(members_.size()); }
  bool Has(int64_t incarnation) const;
  // Returns true if this member reports the StepSums of each step to the
  // coordinator; exactly one member does.
  bool Reports(int64_t incarnation) const {
    return begun() && members_[0] == incarnation;
  }
  // Returns the message that tells a member its number in the group.
  CoordinatorOrder OrderTo(int64_t incarnation) const;

  // Sends a member's publication (a message to the whole group) to all members.
  // Returns FailedPrecondition if the sender is not a member.
  absl::Status Publish(int64_t incarnation, const Publication& publication);

  // ---- The state that members send to the server.

  // Begins a snapshot, which waits until all members have sent their parts of
  // the state at order.version() to the server. Replaces a snapshot that is
  // still waiting. If `asks` is true, requests the parts from the members. Pass
  // false for a version that members send without a request, such as the job's
  // last version.
  void OrderSave(const TakeSnapshot& order, bool asks);
  // Records that a member's part of the state has arrived, or that the member
  // cannot send it. In the second case, drops the snapshot that waits for that
  // part and returns the report of the failure.
  std::optional<SnapshotReport> OnSaved(int64_t incarnation,
                                        const Saved& saved);
  // Returns true if every member's part of the state at `version`, or at a
  // newer version, has arrived.
  bool Kept(int64_t version) const;
  // Returns the incarnation of a member that has published nothing although
  // another member has; 0 if there is none.
  int64_t Silent() const;
  // Returns the incarnation of a member whose part of the state at `version`
  // has not arrived although that of another member has, or of the only member;
  // 0 if there is none.
  int64_t LateSaver(int64_t version) const;
  // If all parts of the snapshot from OrderSave have arrived, and its version
  // is at most `completed` (the number of steps known to be done), returns the
  // order that makes the server write the snapshot. Otherwise, and once it has
  // returned this order, returns nullopt.
  std::optional<ServerOrder> TakeKept(int64_t completed);

 private:
  void Send(const CoordinatorOrder& order) const;

  const Membership& membership_;
  std::vector<int64_t> members_;
  // What all members are told about the group.
  Group group_;
  // Newest version of each member's part of the state that has arrived, in the
  // order of members_.
  std::vector<int64_t> saved_;
  std::set<int64_t> published_;  // Members that have published something.
  std::optional<TakeSnapshot> awaited_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_ALL_REDUCE_GROUP_H_
