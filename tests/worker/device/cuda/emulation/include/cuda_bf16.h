// Replaces CUDA's header of the same name. Declares only the type.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_BF16_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_BF16_H_

#include <cstdint>
#include <cstring>

// A bfloat16 number: the upper half of a float32.
struct __nv_bfloat16 {
  operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }
  uint16_t bits;
};

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_BF16_H_
