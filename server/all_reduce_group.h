// The workers of an all-reduce, as the coordinator knows them.
#ifndef TRIBUTARY_SERVER_ALL_REDUCE_GROUP_H_
#define TRIBUTARY_SERVER_ALL_REDUCE_GROUP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/rendezvous.pb.h"

namespace tributary {

// Of one attempt. Members are known by their incarnations. Not thread-safe.
class AllReduceGroup {
 public:
  // Those who were dealt leaves, in the order of these. `wanted` is the job's;
  // `gpus` names each worker's (Ready.nccl_device).
  void Begin(const std::map<int64_t, Deal>& deals,
             AllReduceSpec::Backend wanted,
             const std::map<int64_t, std::string>& gpus);

  bool begun() const { return !members_.empty(); }
  bool Has(int64_t incarnation) const;
  const std::vector<int64_t>& members() const { return members_; }
  // Who reports the sums of steps.
  bool Reports(int64_t incarnation) const {
    return begun() && members_[0] == incarnation;
  }
  // To one of the members.
  CoordinatorOrder OrderTo(int64_t incarnation) const;

  // ---- The state that members bring to the server.
  // The member's part of it is there.
  void AddSaved(int64_t incarnation, int64_t version);
  // All parts of it are.
  bool Kept(int64_t version) const;

  // A checkpoint that waits for that: the server's order. Replaces one that
  // waits still.
  void AwaitKept(const TakeSnapshot& order) { awaited_ = order; }
  // Forgets the one for that version, which will not come. False: there is
  // none.
  bool GiveUp(int64_t version);
  // The order, once, when its version is kept and `completed` steps are known
  // to be done.
  std::optional<ServerOrder> TakeKept(int64_t completed);

 private:
  std::vector<int64_t> members_;
  std::vector<int> leaf_begin_;  // By member.
  bool nccl_ = false;
  // By member: newest version of its part.
  std::vector<int64_t> saved_;
  std::optional<TakeSnapshot> awaited_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_ALL_REDUCE_GROUP_H_
