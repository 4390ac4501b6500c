// Stands in for CUDA's header of the same name: the type alone.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_BF16_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_BF16_H_

#include <cstdint>
#include <cstring>

// The upper half of a float.
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
