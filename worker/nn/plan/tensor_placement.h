// Buffers of a network's tensors, and where they lie in memory.
#ifndef TRIBUTARY_WORKER_NN_PLAN_TENSOR_PLACEMENT_H_
#define TRIBUTARY_WORKER_NN_PLAN_TENSOR_PLACEMENT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "worker/nn/plan/memory_plan.h"
#include "worker/nn/plan/pass_timeline.h"

namespace tributary {

// Collects buffers, their lifetimes and the fields that receive their offsets.
// Times are those of a PassTimeline.
class TensorPlacement {
 public:
  struct Sizes {
    int64_t kept_bytes = 0;
    int64_t bytes = 0;
  };

  // Returns the number of a new buffer that is in use at `time`.
  int Add(int64_t bytes, int time);
  // Extends the buffer's lifetime to `time`.
  void Use(int buffer, int time);
  // Sets `*place` to the buffer's offset in Resolve. `place` must be valid
  // until then. A buffer of -1 is ignored.
  void Place(int64_t* place, int buffer);
  // Finds the offsets. If `shares`, the buffers that are in use in one pass
  // only lie behind those that are kept between passes.
  Sizes Resolve(const PassTimeline& time, bool shares);

 private:
  std::vector<PlannedBuffer> buffers_;
  std::vector<std::pair<int64_t*, int>> places_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_PLAN_TENSOR_PLACEMENT_H_
