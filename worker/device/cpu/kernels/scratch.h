// Working memory that an operation needs while it runs.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_SCRATCH_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_SCRATCH_H_

#include <cstdint>

#include "worker/device/device.h"

namespace tributary::cpu {

// Grows to the largest size asked for and stays there, so that steps after the
// first allocate nothing. One thread at a time.
class Scratch {
 public:
  // At least `count` floats, aligned to 64 bytes, of unspecified content, valid
  // until the next call. Throws std::bad_alloc: operations have no other way to
  // fail.
  float* Floats(int64_t count);

 private:
  Device::Memory memory_{nullptr, [](void*) {}};
  int64_t capacity_ = 0;
};

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_SCRATCH_H_
