#include "worker/nn/plan/memory_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "worker/nn/plan/tensor_memory.h"

namespace tributary {

MemoryPlan PlanMemory(absl::Span<const PlannedBuffer> buffers,
                      int64_t alignment) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return buffers[a].size > buffers[b].size;
  });

  MemoryPlan plan;
  plan.offsets.resize(buffers.size());
  std::vector<size_t> placed;  // By offset.
  for (const size_t index : order) {
    const PlannedBuffer& buffer = buffers[index];
    int64_t offset = 0;
    for (const size_t other_index : placed) {
      const PlannedBuffer& other = buffers[other_index];
      if (other.last < buffer.first || buffer.last < other.first) continue;
      if (plan.offsets[other_index] >= offset + buffer.size) break;
      offset = std::max(
          offset, RoundUp(plan.offsets[other_index] + other.size, alignment));
    }
    plan.offsets[index] = offset;
    plan.total = std::max(plan.total, offset + buffer.size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](size_t a, size_t b) {
                                     return plan.offsets[a] < plan.offsets[b];
                                   }),
                  index);
  }
  plan.total = RoundUp(plan.total, alignment);
  return plan;
}

}  // namespace tributary
