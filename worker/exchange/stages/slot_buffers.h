// Memory for the slots of a transfer plan.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_SLOT_BUFFERS_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_SLOT_BUFFERS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/buffer_pool.h"
#include "worker/exchange/stages/transfer_plan.h"

namespace tributary {

// One buffer for each slot, allocated when the slot is first used. Calls for
// one slot must be ordered by whatever gives the slot to one user at a time;
// calls for different slots may run concurrently.
class SlotBuffers {
 public:
  // `plan` must outlive this object.
  explicit SlotBuffers(const TransferPlan* plan)
      : plan_(plan), buffers_(plan->slot_count()) {}

  // Returns a buffer of TransferRoute::max_bytes bytes, aligned to 64 bytes,
  // which this object owns. Throws std::bad_alloc if memory is exhausted.
  char* At(int route, int slot) {
    Buffer& buffer = buffers_[plan_->SlotNumber(route, slot)];
    if (buffer == nullptr) {
      constexpr int64_t kBytes = sizeof(float);
      const int64_t bytes = plan_->routes()[route].max_bytes;
      buffer =
          AllocateBuffer(std::max<int64_t>(1, (bytes + kBytes - 1) / kBytes));
    }
    return reinterpret_cast<char*>(buffer.get());
  }

 private:
  const TransferPlan* const plan_;
  std::vector<Buffer> buffers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_SLOT_BUFFERS_H_
