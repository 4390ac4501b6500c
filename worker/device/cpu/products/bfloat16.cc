#include "worker/device/cpu/products/bfloat16.h"

#include <cstring>

#include "common/numerics/half.h"
#include "common/numerics/simd.h"

namespace tributary::cpu {

TRIBUTARY_MULTIVERSION
void Widen(int64_t count, const Bfloat16* from, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    std::memcpy(to + i, &bits, sizeof(bits));
  }
}

void Narrow(int64_t count, const float* from, Bfloat16* to) {
  EncodeHalf(ExchangeSpec::BFLOAT16, from, to, count);
}

}  // namespace tributary::cpu
