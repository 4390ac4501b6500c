// The workers of an all-reduce, as the coordinator knows them: who they are,
// what they tell each other through it, and the state they bring to the server.
#ifndef TRIBUTARY_SERVER_RUN_MODE_ALL_REDUCE_GROUP_H_
#define TRIBUTARY_SERVER_RUN_MODE_ALL_REDUCE_GROUP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/membership.h"

namespace tributary {

// Of one attempt. Members are known by their incarnations. Not thread-safe.
class AllReduceGroup {
 public:
  // `membership` must outlive the group. Orders go to the links of members that
  // are still there.
  explicit AllReduceGroup(const Membership* membership)
      : membership_(*membership) {}

  // Those who were dealt leaves, in the order of these. `wanted` is the job's.
  void Begin(const std::map<int64_t, Deal>& assignments,
             AllReduceSpec::Backend wanted);

  bool begun() const { return !members_.empty(); }
  int size() const { return static_cast<int>(members_.size()); }
  bool Has(int64_t incarnation) const;
  // Who reports the sums of steps.
  bool Reports(int64_t incarnation) const {
    return begun() && members_[0] == incarnation;
  }
  // To one of the members.
  CoordinatorOrder OrderTo(int64_t incarnation) const;

  // What a member tells all of them. FailedPrecondition from anybody else.
  absl::Status Publish(int64_t incarnation, const Publication& publication);

  // ---- The state that members bring to the server.
  // Asks the members for their parts of the state at order.version(), which the
  // server's snapshot waits for; replaces one that waits still. `asks` false:
  // they bring them unasked.
  void OrderSave(const TakeSnapshot& order, bool asks);
  // A member's part is there, or will not come: then the snapshot that waits
  // for it is forgotten, and what became of it returned.
  std::optional<SnapshotReport> OnSaved(int64_t incarnation,
                                        const Saved& saved);
  // All parts of that version, or of a newer one, are there.
  bool Kept(int64_t version) const;
  // The order for the snapshot that waits, once, when its version is kept and
  // `completed` steps are known to be done.
  std::optional<ServerOrder> TakeKept(int64_t completed);

 private:
  void Send(const CoordinatorOrder& order) const;

  const Membership& membership_;
  std::vector<int64_t> members_;
  std::vector<int> micro_batch_begin_;  // By member.
  bool nccl_ = false;
  // By member: newest version of its part.
  std::vector<int64_t> saved_;
  std::optional<TakeSnapshot> awaited_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_ALL_REDUCE_GROUP_H_
