// bfloat16 numbers in memory: the upper half of a float32.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_BFLOAT16_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_BFLOAT16_H_

#include <cstdint>

namespace tributary::cpu {

enum class Bfloat16 : uint16_t {};

// Sets to[i] = from[i] for i < count, which is exact. The arrays must not
// overlap.
void Widen(int64_t count, const Bfloat16* from, float* to);

// Sets to[i] = from[i] for i < count, rounded as in common/numerics/half.h. The
// arrays must not overlap.
void Narrow(int64_t count, const float* from, Bfloat16* to);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_PRODUCTS_BFLOAT16_H_
