#include "worker/nn/plan/tensor_placement.h"

#include <algorithm>
#include <cstddef>

#include "worker/nn/plan/tensor_memory.h"

namespace tributary {

int TensorPlacement::Add(int64_t bytes, int time) {
  buffers_.push_back({bytes, time, time});
  return static_cast<int>(buffers_.size()) - 1;
}

void TensorPlacement::Use(int buffer, int time) {
  buffers_[buffer].first = std::min(buffers_[buffer].first, time);
  buffers_[buffer].last = std::max(buffers_[buffer].last, time);
}

void TensorPlacement::Place(int64_t* place, int buffer) {
  if (buffer >= 0) places_.emplace_back(place, buffer);
}

TensorPlacement::Sizes TensorPlacement::Resolve(const PassTimeline& time,
                                                bool shares) {
  std::vector<PlannedBuffer> kept, shared;
  std::vector<std::pair<bool, size_t>> numbers;  // By buffer.
  for (const PlannedBuffer& buffer : buffers_) {
    const bool is_shared =
        shares && time.PassAt(buffer.first) == time.PassAt(buffer.last);
    std::vector<PlannedBuffer>& list = is_shared ? shared : kept;
    numbers.emplace_back(is_shared, list.size());
    list.push_back(buffer);
  }
  const MemoryPlan kept_memory = PlanMemory(kept, kTensorAlignment);
  const MemoryPlan shared_memory = PlanMemory(shared, kTensorAlignment);
  for (const auto& [place, buffer] : places_) {
    const auto& [is_shared, number] = numbers[buffer];
    *place = is_shared ? kept_memory.total + shared_memory.offsets[number]
                       : kept_memory.offsets[number];
  }
  return {kept_memory.total, kept_memory.total + shared_memory.total};
}

}  // namespace tributary
