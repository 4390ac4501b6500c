// Which transfers the workers of a pipeline exchange, and the bounds of the
// queues between stages.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_TRANSFER_PLAN_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_TRANSFER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/pipeline.pb.h"
#include "worker/exchange/stages/transfer.h"

namespace tributary {

// All transfers of one kind at one boundary.
struct TransferRoute {
  int32_t boundary = 0;
  StageTransfer::Kind kind = StageTransfer::KIND_UNSPECIFIED;
  // Size of the largest transfer in bytes.
  int64_t max_bytes = 0;
  // The bound of the queue: the number of transfers that a sender may have sent
  // to one receiver and that the receiver has not released. At least the number
  // of micro-batches by which the sender's schedule may be ahead of the
  // receiver's; with fewer, both may wait for each other.
  int slots = 1;
};

// The routes of a job, which are the same for all of its workers. Each sender
// has `slots` slots of `max_bytes` bytes for each route and receiver. So the
// plan bounds the memory of a connection: the sum of the products. Immutable
// and thread-safe.
class TransferPlan {
 public:
  // Creates a plan for `micro_batches` micro-batches a step. Returns
  // InvalidArgument if two routes have the same boundary and kind, a field of a
  // route is out of range, or a connection would need more than 64 TiB.
  static absl::StatusOr<TransferPlan> Create(std::vector<TransferRoute> routes,
                                             int64_t micro_batches);

  const std::vector<TransferRoute>& routes() const { return routes_; }
  int micro_batches() const { return micro_batches_; }
  // Returns the number of the route in routes(), or -1 if there is none.
  int Find(int32_t boundary, StageTransfer::Kind kind) const;
  // Returns the number of the route of a transfer of this size. Returns
  // InvalidArgument if there is none, or if the transfer is too large or of a
  // micro-batch or step that cannot exist. The plan does not know the number of
  // evaluation pieces.
  absl::StatusOr<int> RouteOf(const TransferKey& key, int64_t bytes) const;

  // The total number of slots, and a slot's number among them.
  int slot_count() const { return slot_begin_.back(); }
  int SlotNumber(int route, int slot) const {
    return slot_begin_[route] + slot;
  }
  // The layout of the memory that contains all slots: the position of a slot,
  // and the size, in bytes. Slots begin and end at page boundaries.
  int64_t SlotOffset(int route, int slot) const {
    return byte_begin_[route] + slot * SlotStride(routes_[route]);
  }
  int64_t memory_bytes() const { return byte_begin_.back(); }

  // Returns the SHA-256, in hex, of all fields. Equal for equal plans.
  const std::string& signature() const { return signature_; }

 private:
  TransferPlan() = default;
  static int64_t SlotStride(const TransferRoute& route);

  std::vector<TransferRoute> routes_;
  int micro_batches_ = 0;
  // The first slot and the first byte of each route, and at the end the total.
  std::vector<int> slot_begin_ = {0};
  std::vector<int64_t> byte_begin_ = {0};
  std::string signature_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_TRANSFER_PLAN_H_
