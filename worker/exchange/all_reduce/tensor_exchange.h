// The trust ratios of one step of an all-reduce. Internal to AllReduceStep.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_TENSOR_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_TENSOR_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameters/trust_ratios.h"
#include "worker/exchange/all_reduce/chunk_routes.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

// Exchanges the TensorSquares of all chunks among the members, and computes the
// trust ratios from them. Each member has those of the chunks that it reduces.
// Not thread-safe.
class TensorExchange {
 public:
  using Transfer = std::unique_ptr<PeerMesh::Transfer>;
  using Receive = std::function<Transfer(int member, uint64_t tag, void* data,
                                         int64_t bytes)>;
  using Send = std::function<void(int member, uint64_t tag, const void* data,
                                  int64_t bytes)>;

  // Begins to receive. `ratios` and `routes` must outlive this object, and so
  // must the object the transfers.
  TensorExchange(const TrustRatios* ratios, const ChunkRoutes* routes,
                 int64_t step, int rank, const Receive& receive);

  // Sends the squares of this member's chunks, in ascending order of chunks,
  // waits for those of the others, and returns the trust ratios of all
  // parameters. What is sent must stay until the sends are complete, as this
  // object does.
  absl::StatusOr<std::vector<float>> Exchange(
      const std::vector<std::vector<TensorSquares>>& own, const Send& send);

 private:
  const TrustRatios& ratios_;
  const ChunkRoutes& routes_;
  const uint64_t tag_;
  const int rank_;
  // Indexed by member: the squares of its chunks, in ascending order.
  std::vector<std::vector<TensorSquares>> squares_;
  std::vector<Transfer> transfers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_TENSOR_EXCHANGE_H_
