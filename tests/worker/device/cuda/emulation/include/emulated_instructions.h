// Implements the functions of worker/device/cuda/kernels/instructions.h on the
// CPU. See that header for what they do.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_INSTRUCTIONS_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_INSTRUCTIONS_H_

#include <cstdint>

#include "tests/worker/device/cuda/emulation/emulated_gpu.h"

namespace tributary::cuda {

using SharedAddress = uintptr_t;

inline SharedAddress SharedAddressOf(const void* memory) {
  return reinterpret_cast<SharedAddress>(memory);
}

void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                 uint32_t b1);
void LoadMatrices(SharedAddress row, uint32_t (&words)[4]);
void LoadTransposedMatrices(SharedAddress row, uint32_t (&words)[4]);

// Begins a copy of CopyAsync. Ends the process if an address is not a multiple
// of `bytes`. If `from` is null, writes zeros.
void BeginAlignedCopy(SharedAddress to, const void* from, size_t bytes);
template <int kBytes>
void CopyAsync(SharedAddress to, const void* from, bool inside) {
  static_assert(kBytes == 4 || kBytes == 16, "sizes of the instruction");
  BeginAlignedCopy(to, inside ? from : nullptr, kBytes);
}
inline void WaitForCopies() { emulated_gpu::WaitForCopies(); }

uint32_t LoadWord(const void* from);
void StoreWord(void* to, uint32_t word);
uint32_t PackBfloat16(float low, float high);
float LowOf(uint32_t word);
float HighOf(uint32_t word);
float Exp2(float x);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_INSTRUCTIONS_H_
