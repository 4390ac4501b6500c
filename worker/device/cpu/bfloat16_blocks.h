// Helpers for operations in bfloat16. These operations convert their inputs to
// float32, compute in float32, and round their outputs. Where the formula
// permits, they process one block of elements at a time, so that its float32
// copies stay in the cache.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_BLOCKS_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_BLOCKS_H_

#include <algorithm>
#include <cstdint>

#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/products/bfloat16.h"
#include "worker/device/ops/real.h"

namespace tributary::cpu {

// Number of elements in a block, the part of a tensor that an operation in
// bfloat16 processes at a time. Three float32 tensors of this size, and the
// bfloat16 data, fit into the first-level cache.
inline constexpr int64_t kBlock = 2048;
// Number of elements in a block for operations that pass over each block
// several times. Such a block fits into the second-level cache.
inline constexpr int64_t kLargeBlock = 16384;

// Cast a pointer to Real, the opaque element type, to a pointer to the type
// that Real stands for. AsFloats is for devices with Precision::kFloat32;
// AsHalves is for devices with Precision::kBfloat16.
inline const float* AsFloats(const Real* x) {
  return reinterpret_cast<const float*>(x);
}
inline float* AsFloats(Real* x) { return reinterpret_cast<float*>(x); }
inline const Bfloat16* AsHalves(const Real* x) {
  return reinterpret_cast<const Bfloat16*>(x);
}
inline Bfloat16* AsHalves(Real* x) { return reinterpret_cast<Bfloat16*>(x); }

// Divides `count` items, each of `size` elements, into consecutive groups. A
// group has at most `block` elements; if an item has more than `block`
// elements, each group is one item. Calls run(index of the first item, number
// of items) for each group.
template <typename Run>
void InBlocks(int64_t count, int64_t size, int64_t block, const Run& run) {
  const int64_t step = std::max<int64_t>(1, block / size);
  for (int64_t first = 0; first < count; first += step) {
    run(first, std::min(step, count - first));
  }
}

// Returns memory for `count` floats in slot number `slot` of Context::slots.
// Each slot holds one tensor at a time, so the memory is valid until the next
// call for this slot.
inline float* Room(Context* context, int slot, int64_t count) {
  return context->slots[slot].Floats(count);
}
// Converts the `count` bfloat16 numbers at `from` to float32, writes them to
// the memory that Room returns for this slot, and returns that memory.
inline float* Read(Context* context, int slot, int64_t count,
                   const Bfloat16* from) {
  float* to = Room(context, slot, count);
  Widen(count, from, to);
  return to;
}

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_BFLOAT16_BLOCKS_H_
