// Allocation of buffers with known lifetimes within one block of memory.
#ifndef TRIBUTARY_WORKER_NN_PLAN_MEMORY_PLAN_H_
#define TRIBUTARY_WORKER_NN_PLAN_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tributary {

// A buffer for which PlanMemory finds a place. It has `size` bytes and is in
// use from time `first` to time `last`, inclusive. The caller chooses the
// times; only their order matters.
struct PlannedBuffer {
  int64_t size = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // Offset of each buffer, in bytes.
  int64_t total = 0;             // Size of the block, in bytes.
};

// Assigns each buffer an offset in one block of memory, such that buffers in
// use at the same time do not overlap. Offsets are multiples of `alignment`.
// Places buffers greedily, largest first, each at the lowest free offset
// (Pisarchyk and Lee, "Efficient memory management for deep neural net
// inference", 2020). Deterministic. Takes O(n^2) time for n buffers.
MemoryPlan PlanMemory(absl::Span<const PlannedBuffer> buffers,
                      int64_t alignment);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_PLAN_MEMORY_PLAN_H_
