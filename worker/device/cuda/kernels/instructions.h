// Instructions of tensor cores and asynchronous copies (sm_80 and later). The
// functions wrap PTX instructions. Tests replace them by the functions of
// emulated_instructions.h, which run on the CPU. For .cu files only.
//
// `lane` is the thread's number in its warp. A word is 32 bits that hold two
// bfloat16 elements, the one with the lower index in the lower half.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_INSTRUCTIONS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_INSTRUCTIONS_H_

#include <cuda_runtime.h>

#include <cstdint>

#ifdef __CUDACC__

namespace tributary::cuda {

// An address in shared memory, in bytes.
using SharedAddress = uint32_t;

__device__ inline SharedAddress SharedAddressOf(const void* memory) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(memory));
}

// Computes the matrix product d += a b, with a [16, 16], b [16, 8] and d [16,
// 8], whose elements are distributed over the lanes. All lanes of the warp must
// call this function together. With g = lane / 4 and t = lane % 4, the lane
// holds
//   a[0]: row g, columns 2 t and 2 t + 1;  a[1]: same columns, row g + 8;
//   a[2], a[3]: like a[0], a[1], of columns 2 t + 8 and 2 t + 9;
//   b0: rows 2 t and 2 t + 1 of column g;  b1: rows 2 t + 8 and 2 t + 9;
//   d[0], d[1]: row g, columns 2 t and 2 t + 1;
//   d[2], d[3]: same columns, row g + 8.
__device__ inline void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4],
                                   uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads four matrices of [8, 8] bfloat16 from shared memory. All lanes of the
// warp must call this function together. Lane 8 m + r passes the address of
// row r of matrix m, which must be a multiple of 16. Each lane receives a word
// of each matrix: words[i] contains columns 2 (lane % 4) and 2 (lane % 4) + 1
// of row lane / 4 of matrix i.
__device__ inline void LoadMatrices(SharedAddress row, uint32_t (&words)[4]) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
      : "r"(row)
      : "memory");
}

// Like LoadMatrices, but loads the transposed matrices: words[i] contains rows
// 2 (lane % 4) and 2 (lane % 4) + 1 of column lane / 4 of matrix i.
__device__ inline void LoadTransposedMatrices(SharedAddress row,
                                              uint32_t (&words)[4]) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
      : "r"(row)
      : "memory");
}

// Begins to copy kBytes bytes, 4 or 16, from global to shared memory. If
// `inside` is false, sets the bytes of `to` to zero instead. Both addresses
// must be multiples of kBytes. The bytes of `to` are undefined until the thread
// has called WaitForCopies. Other threads see the bytes after a barrier that
// follows WaitForCopies.
template <int kBytes>
__device__ inline void CopyAsync(SharedAddress to, const void* from,
                                 bool inside) {
  static_assert(kBytes == 4 || kBytes == 16, "sizes of the instruction");
  const size_t source = __cvta_generic_to_global(from);
  const int bytes = inside ? kBytes : 0;
  if constexpr (kBytes == 16) {
    // `.cg` bypasses the L1 cache.
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(source), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to),
                 "l"(source), "r"(bytes)
                 : "memory");
  }
}

// Waits for all copies that the thread has begun.
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Returns a word with `low` in its lower and `high` in its upper half. Both are
// rounded to bfloat16, to nearest, ties to even.
__device__ inline uint32_t PackBfloat16(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// Load and store a word (four bytes) of global memory. Its address must be a
// multiple of 4.
__device__ inline uint32_t LoadWord(const void* from) {
  uint32_t word;
  asm volatile("ld.global.b32 %0, [%1];"
               : "=r"(word)
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return word;
}
__device__ inline void StoreWord(void* to, uint32_t word) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)),
               "r"(word)
               : "memory");
}

// Return the bfloat16 number in the lower half (LowOf) or the upper half
// (HighOf) of a word.
__device__ inline float LowOf(uint32_t word) {
  return __uint_as_float(word << 16);
}
__device__ inline float HighOf(uint32_t word) {
  return __uint_as_float(word & 0xffff0000u);
}

// Returns 2^x with a relative error of at most 2^-22, and 0 for a result below
// 2^-126.
__device__ inline float Exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

}  // namespace tributary::cuda

#else
#include <emulated_instructions.h>
#endif

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_INSTRUCTIONS_H_
