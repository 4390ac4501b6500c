// The sums of squares of one step of an all-reduce. Internal to AllReduceStep.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_SQUARE_SUMS_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_SQUARE_SUMS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/all_reduce/chunk_routes.h"
#include "worker/exchange/all_reduce/member_optimizer.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

// Exchanges the sums of squares of all chunks among the members: each member
// has those of the chunks that it reduces. Not thread-safe.
class SquareSums {
 public:
  using SquareSum = MemberOptimizer::SquareSum;
  using Transfer = std::unique_ptr<PeerMesh::Transfer>;
  using Receive = std::function<Transfer(int member, uint64_t tag, void* data,
                                         int64_t bytes)>;
  using Send = std::function<void(int member, uint64_t tag, const void* data,
                                  int64_t bytes)>;

  // Begins to receive: all members if `all` is true, and otherwise member 0
  // only. `routes` must outlive this object, and so must the object the
  // transfers.
  SquareSums(const ChunkRoutes* routes, int64_t step, int rank, bool all,
             const Receive& receive);

  // Sends the sums of this member's chunks, indexed by chunk, to the members
  // that receive them. What is sent must stay until the sends are complete, as
  // this object does.
  void SendOwn(const std::map<int, SquareSum>& own, const Send& send);
  // Waits for those that this member receives. Only then may the methods below
  // be called, by a member that receives them.
  absl::Status Await();
  // Returns the sum over all chunks, added in ascending order.
  double Total() const;
  void AddTo(StepSums* sums) const;

 private:
  const SquareSum& Of(int chunk) const {
    return sums_[routes_.OwnerOf(chunk)][routes_.PlaceOf(chunk)];
  }
  int64_t Bytes(int member) const {
    return static_cast<int64_t>(sums_[member].size() * sizeof(SquareSum));
  }

  const ChunkRoutes& routes_;
  const uint64_t tag_;
  const int rank_;
  const bool all_;
  // Indexed by member: the sums of its chunks, in ascending order of chunks.
  std::vector<std::vector<SquareSum>> sums_;
  std::vector<Transfer> transfers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_SQUARE_SUMS_H_
