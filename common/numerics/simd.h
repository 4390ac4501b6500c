// Vectorizes hot loops for the instruction set that is found at run time, so
// that one binary suits any x86-64.
//
// A function marked TRIBUTARY_MULTIVERSION is compiled once per instruction
// set, and the loader selects the best version. All versions perform the same
// arithmetic: the build disables contraction of a * b + c (-ffp-contract=off),
// element-wise loops have no order of summation, and sums use Lanes, which has
// sixteen partial sums in every version. The bits of a result therefore do not
// depend on the processor.
//
// Mark definitions of functions that are neither templates nor inline. Helpers
// that such a function calls in its loop must be TRIBUTARY_INLINE, so that each
// version compiles its own copy.
//
// Targets that use Lanes need copts = ["-Wno-psabi"]: GCC warns that vector
// arguments have a different calling convention without AVX-512. This does not
// affect functions that are always inlined.
#ifndef TRIBUTARY_COMMON_NUMERICS_SIMD_H_
#define TRIBUTARY_COMMON_NUMERICS_SIMD_H_

#include <cstdint>

// Marks a function to be compiled in several versions: v3 uses AVX2 (Haswell,
// Zen and later), v4 uses AVX-512 (Skylake-X, Zen 4 and later). Builds with
// Clang have the default version only, and so do sanitized builds, because the
// code that selects a version runs before the sanitizers are initialized.
#if defined(__x86_64__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TRIBUTARY_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
// For code that has one function for processors with wide registers (see
// HasWideRegisters) and another one for all other processors. Mark the first
// function TRIBUTARY_WIDE_VERSION and the second TRIBUTARY_NARROW_VERSIONS, so
// that each function is compiled only for the processors that can run it.
#define TRIBUTARY_WIDE_VERSION __attribute__((target("arch=x86-64-v4")))
#define TRIBUTARY_NARROW_VERSIONS \
  __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define TRIBUTARY_MULTIVERSION
#define TRIBUTARY_WIDE_VERSION
#define TRIBUTARY_NARROW_VERSIONS
#endif

#define TRIBUTARY_INLINE static inline __attribute__((always_inline))

namespace tributary::simd {

// The type Lanes holds kLanes floats, which are added and multiplied lane by
// lane.
inline constexpr int kLanes = 16;
typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef float UnalignedLanes
    __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

// Eight floats, half of Lanes: the capacity of an AVX2 register. Loops that
// keep sums over many iterations should use HalfLanes with AVX2, because GCC
// would keep larger vectors in memory. Element-wise loops can use Lanes: GCC
// splits them well.
typedef float HalfLanes __attribute__((vector_size(2 * kLanes)));
typedef float UnalignedHalfLanes
    __attribute__((vector_size(2 * kLanes), aligned(4), may_alias));

// Returns true if the processor supports x86-64-v4 (AVX-512), which has 32
// registers with the size of Lanes. Other processors have 16 registers with at
// most the size of HalfLanes.
TRIBUTARY_INLINE bool HasWideRegisters() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

template <typename Vector = Lanes>
TRIBUTARY_INLINE Vector Load(const float* from) {
  if constexpr (sizeof(Vector) == sizeof(HalfLanes)) {
    return *reinterpret_cast<const UnalignedHalfLanes*>(from);
  } else {
    return *reinterpret_cast<const UnalignedLanes*>(from);
  }
}

TRIBUTARY_INLINE void Store(float* to, Lanes value) {
  *reinterpret_cast<UnalignedLanes*>(to) = value;
}
TRIBUTARY_INLINE void Store(float* to, HalfLanes value) {
  *reinterpret_cast<UnalignedHalfLanes*>(to) = value;
}

// Returns the first `count` floats of `from`, with the other lanes set to zero.
// `count` must be below 16.
TRIBUTARY_INLINE Lanes LoadFirst(const float* from, int64_t count) {
  Lanes value = {};
  for (int64_t i = 0; i < count; ++i) value[i] = from[i];
  return value;
}

// Returns the sum of the lanes, added in a fixed order: the upper half is added
// to the lower half until one number is left.
TRIBUTARY_INLINE float Sum(Lanes v) {
  const float a0 = v[0] + v[8], a1 = v[1] + v[9], a2 = v[2] + v[10],
              a3 = v[3] + v[11], a4 = v[4] + v[12], a5 = v[5] + v[13],
              a6 = v[6] + v[14], a7 = v[7] + v[15];
  const float b0 = a0 + a4, b1 = a1 + a5, b2 = a2 + a6, b3 = a3 + a7;
  return (b0 + b2) + (b1 + b3);
}

}  // namespace tributary::simd

#endif  // TRIBUTARY_COMMON_NUMERICS_SIMD_H_
