// The loops of half.h, compiled once for each instruction set. Internal to
// //common/numerics:half and its test.
//
// All operations work on the bits of numbers and use selections instead of
// branches, so that the compiler vectorizes the loops for any width. Some of
// them add floats in order to round. These additions give the same bits whether
// or not the thread treats denormal numbers as zero: a denormal operand is too
// small to change the result, and the result is not denormal.
#ifndef TRIBUTARY_COMMON_NUMERICS_HALF_KERNELS_H_
#define TRIBUTARY_COMMON_NUMERICS_HALF_KERNELS_H_

#include <cstdint>
#include <cstring>

#include "common/numerics/simd.h"

namespace tributary::half_kernels {

inline constexpr uint32_t kSign = 0x80000000;
inline constexpr uint32_t kInfinity = 0x7f800000;
inline constexpr uint32_t kQuietNan = 0x7fc00000;

TRIBUTARY_INLINE uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TRIBUTARY_INLINE float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Reads the 16-bit number with index `i`. `from`, a payload, may be unaligned.
TRIBUTARY_INLINE uint16_t Load16(const char* from, int64_t i) {
  uint16_t bits;
  std::memcpy(&bits, from + 2 * i, sizeof(bits));
  return bits;
}

// Each format defines how to round a float32 (Rounded, RoundedSum), how to
// encode a number as 16 bits (Encoded), and how to decode 16 bits (Decoded).
// All float32 numbers are passed as their bits.
struct Bfloat16 {
  static __attribute__((always_inline)) uint32_t Rounded(uint32_t bits) {
    const uint32_t magnitude = bits & ~kSign;
    // Rounds to nearest, ties to even. Adds half a unit in the last place that
    // is kept, or slightly less if the bit in that place is 0 (even). A carry
    // from this addition rounds up, and may increment the exponent.
    uint32_t result = bits + 0x7fff + (bits >> 16 & 1);
    result = magnitude > kInfinity ? kQuietNan | (bits & kSign) : result;
    // Denormal numbers count as zero.
    result = magnitude < 0x00800000 ? bits & kSign : result;
    return result & 0xffff0000;
  }
  // Rounds a sum of two rounded numbers. Needs no special cases: the lower 16
  // bits of a NaN sum are zero, because they are zero in the operands; and the
  // sum is not denormal if denormal numbers are flushed.
  static __attribute__((always_inline)) uint32_t RoundedSum(uint32_t bits) {
    return (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  }
  static __attribute__((always_inline)) uint32_t Encoded(uint32_t bits) {
    return Rounded(bits) >> 16;
  }
  static __attribute__((always_inline)) uint32_t Decoded(uint32_t half) {
    const uint32_t bits = half << 16;
    return (half & 0x7f80) == 0 ? bits & kSign : bits;
  }
};

// Magnitudes below 2^-14, the smallest normal number, are rounded to multiples
// of 2^-24. Float32 numbers from 0.5 to 1 have the same spacing, so adding 0.5
// to the magnitude rounds it.
struct Float16 {
  static __attribute__((always_inline)) uint32_t Rounded(uint32_t bits) {
    const uint32_t magnitude = bits & ~kSign;
    uint32_t result = (magnitude + 0xfff + (magnitude >> 13 & 1)) & ~0x1fffu;
    // Values that round to 2^16 become infinity.
    result = result >= 0x47800000 ? kInfinity : result;
    result = magnitude > kInfinity ? kQuietNan : result;
    const uint32_t small = BitsOf((FloatOf(magnitude) + 0.5f) - 0.5f);
    result = magnitude < 0x38800000 ? small : result;
    return result | (bits & kSign);
  }
  static __attribute__((always_inline)) uint32_t RoundedSum(uint32_t bits) {
    return Rounded(bits);
  }
  static __attribute__((always_inline)) uint32_t Encoded(uint32_t bits) {
    const uint32_t magnitude = bits & ~kSign;
    // Subtracts 112 from the exponent, because its bias is 127 in float32 and
    // 15 in float16, and rounds the magnitude to nearest, ties to even.
    uint32_t result =
        (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    result = magnitude >= 0x477ff000 ? 0x7c00 : result;
    result = magnitude > kInfinity ? 0x7e00 : result;
    const uint32_t small = BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f);
    result = magnitude < 0x38800000 ? small : result;
    return result | (bits >> 16 & 0x8000);
  }
  static __attribute__((always_inline)) uint32_t Decoded(uint32_t half) {
    const uint32_t magnitude = half & 0x7fff;
    uint32_t result = (magnitude << 13) + (112u << 23);
    result = magnitude >= 0x7c00 ? magnitude << 13 | kInfinity : result;
    // Makes every NaN quiet, as arithmetic does.
    result = magnitude > 0x7c00 ? kQuietNan : result;
    const uint32_t small =
        BitsOf(FloatOf((magnitude << 13) + (113u << 23)) - 0x1p-14f);
    result = magnitude < 0x0400 ? small : result;
    return result | (half & 0x8000) << 16;
  }
};

template <typename Format>
TRIBUTARY_INLINE void Encode(const float* __restrict from, char* __restrict to,
                             int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t half =
        static_cast<uint16_t>(Format::Encoded(BitsOf(from[i])));
    std::memcpy(to + 2 * i, &half, sizeof(half));
  }
}

template <typename Format>
TRIBUTARY_INLINE void Decode(const char* __restrict from, float* __restrict to,
                             int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = FloatOf(Format::Decoded(Load16(from, i)));
  }
}

template <typename Format>
TRIBUTARY_INLINE void RoundInPlace(float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    values[i] = FloatOf(Format::Rounded(BitsOf(values[i])));
  }
}

template <typename Format>
TRIBUTARY_INLINE void Round(const float* __restrict from, float* __restrict to,
                            int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = FloatOf(Format::Rounded(BitsOf(from[i])));
  }
}

template <typename Format>
TRIBUTARY_INLINE void RoundAndAdd(const float* __restrict x,
                                  float* __restrict sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float a = FloatOf(Format::Rounded(BitsOf(sum[i])));
    const float b = FloatOf(Format::Rounded(BitsOf(x[i])));
    sum[i] = FloatOf(Format::RoundedSum(BitsOf(a + b)));
  }
}

template <typename Format>
TRIBUTARY_INLINE void AddRounded(const float* __restrict x,
                                 float* __restrict sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    sum[i] = FloatOf(Format::RoundedSum(BitsOf(sum[i] + x[i])));
  }
}

template <typename Format>
TRIBUTARY_INLINE void SumRounded(const float* __restrict a,
                                 const float* __restrict b,
                                 float* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = FloatOf(Format::RoundedSum(BitsOf(a[i] + b[i])));
  }
}

}  // namespace tributary::half_kernels

#endif  // TRIBUTARY_COMMON_NUMERICS_HALF_KERNELS_H_
