// Helpers for operations that exist in both number formats. Operations compute
// in float32. With T = float they do so in the tensors themselves; with T =
// Bfloat16, they convert their inputs to float32 and round their outputs. Where
// the formula permits, they process one block of elements at a time, so that
// its float32 copies stay in the cache.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_IN_BLOCKS_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_IN_BLOCKS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/products/bfloat16.h"
#include "worker/device/ops/real.h"

namespace tributary::cpu {

// Number of elements in a block, the part of a tensor that an operation in
// bfloat16 processes at a time. Three float32 tensors of this size, and the
// bfloat16 data, fit into the first-level cache.
inline constexpr int64_t kSmallBlock = 2048;
// Number of elements in a block for operations that pass over each block
// several times. Such a block fits into the second-level cache.
inline constexpr int64_t kLargeBlock = 16384;

template <typename T>
inline constexpr bool kIsFloat = std::is_same_v<T, float>;

// Cast a pointer to Real, the opaque element type, to a pointer to T, the type
// that Real stands for: float on devices with Precision::kFloat32, Bfloat16 on
// devices with Precision::kBfloat16.
template <typename T>
const T* As(const Real* x) {
  return reinterpret_cast<const T*>(x);
}
template <typename T>
T* As(Real* x) {
  return reinterpret_cast<T*>(x);
}

// Divides `count` items, each of `size` elements, into consecutive groups and
// calls run(index of the first item, number of items) for each group. With T =
// float there is one group. With T = Bfloat16, a group has at most `block`
// elements; if an item has more than `block` elements, each group is one item.
template <typename T, typename Run>
void InBlocks(int64_t count, int64_t size, int64_t block, const Run& run) {
  const int64_t step = kIsFloat<T> ? count : std::max<int64_t>(1, block / size);
  for (int64_t first = 0; first < count; first += step) {
    run(first, std::min(step, count - first));
  }
}

// Returns memory for `count` results that Write moves to y[first]: y[first]
// itself, or slot number `slot` of Context::slots. Each slot holds one tensor
// at a time, so the memory is valid until the next call for this slot with a
// different count. Null yields null.
template <typename T>
float* Room(Context* context, int slot, int64_t count, Real* y,
            int64_t first = 0) {
  if (y == nullptr) return nullptr;
  if constexpr (kIsFloat<T>) return As<T>(y) + first;
  return context->slots[slot].Floats(count);
}

// Return the `count` numbers from x[first] on in float32: x[first] itself, or a
// copy in the memory that Room returns for this slot. Null yields null.
template <typename T>
float* Read(Context* context, int slot, int64_t count, Real* x,
            int64_t first = 0) {
  float* const to = Room<T>(context, slot, count, x, first);
  if constexpr (!kIsFloat<T>) {
    if (x != nullptr) Widen(count, As<T>(x) + first, to);
  }
  return to;
}
template <typename T>
const float* Read(Context* context, int slot, int64_t count, const Real* x,
                  int64_t first = 0) {
  return Read<T>(context, slot, count, const_cast<Real*>(x), first);
}

// Moves `count` results in the memory that Room or Read returned for y[first]
// to y[first]. Does nothing if `y` is null.
template <typename T>
void Write(int64_t count, const float* from, Real* y, int64_t first = 0) {
  if constexpr (!kIsFloat<T>) {
    if (y != nullptr) Narrow(count, from, As<T>(y) + first);
  }
}

// Creates the operations Ops<T> for the type T that Real stands for.
template <typename Interface, template <typename T> class Ops,
          typename... Arguments>
std::unique_ptr<Interface> CreateOps(Precision precision,
                                     Arguments... arguments) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Ops<float>>(arguments...);
  }
  return std::make_unique<Ops<Bfloat16>>(arguments...);
}

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_IN_BLOCKS_H_
