// A bijection of 64-bit numbers, for hashes.
#ifndef TRIBUTARY_COMMON_NUMERICS_MIX_BITS_H_
#define TRIBUTARY_COMMON_NUMERICS_MIX_BITS_H_

#include <cstdint>

namespace tributary {

// Returns a bijective function of `bits`, of which every bit depends on all
// bits of the argument: the 64-bit finalizer of MurmurHash3 (Appleby).
constexpr uint64_t MixBits(uint64_t bits) {
  bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccdu;
  bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53u;
  return bits ^ (bits >> 33);
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_MIX_BITS_H_
