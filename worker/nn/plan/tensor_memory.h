// How tensors lie in memory, on CPUs and GPUs.
#ifndef TRIBUTARY_WORKER_NN_PLAN_TENSOR_MEMORY_H_
#define TRIBUTARY_WORKER_NN_PLAN_TENSOR_MEMORY_H_

#include <cstdint>

namespace tributary {

// Tensors start at multiples of this number of bytes: the size of a cache line,
// and of the widest vector register.
inline constexpr int64_t kTensorAlignment = 64;

// Size of elements other than Real: tokens, targets, saved tensors.
inline constexpr int64_t kElementBytes = 4;

// The least multiple of `multiple` that is not below `value` >= 0.
constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_PLAN_TENSOR_MEMORY_H_
