// bfloat16 numbers in kernels.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BFLOAT16_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BFLOAT16_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace tributary::cuda {

// A bfloat16 number: the upper half of a float32, in the layout of CUDA's
// libraries (CUDA_R_16BF, CUDNN_DATA_BFLOAT16). Kernels that are templates over
// the type of Real compute with float; this type converts to and from float
// implicitly.
struct Bfloat16 {
  Bfloat16() = default;
  // Rounds `value` to nearest, ties to even. NaN stays NaN.
  __host__ __device__ Bfloat16(float value) {  // NOLINT: implicit.
#ifdef __CUDA_ARCH__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    uint32_t wide;
    memcpy(&wide, &value, sizeof(wide));
    const uint32_t rounded = (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
    bits =
        static_cast<uint16_t>(value == value ? rounded : wide >> 16 | 0x7fc0);
#endif
  }
  __host__ __device__ operator float() const {  // NOLINT: implicit.
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
  }

  uint16_t bits;
};
static_assert(sizeof(Bfloat16) == 2, "the libraries' layout");

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_BFLOAT16_H_
