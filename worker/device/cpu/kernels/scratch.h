// Temporary memory of operations.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_SCRATCH_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_SCRATCH_H_

#include <atomic>
#include <cstdint>

#include "worker/device/device.h"

namespace tributary::cpu {

// A block of memory that grows to the largest requested size and never shrinks,
// so that steps after the first do not allocate memory. Not thread-safe, except
// bytes.
class Scratch {
 public:
  // Returns at least `count` floats, aligned to 64 bytes, with unspecified
  // content. The memory is valid until the next call. Throws std::bad_alloc if
  // memory does not suffice, because operations have no other way to report an
  // error.
  float* Floats(int64_t count);

  // Returns the size of the block.
  int64_t bytes() const { return capacity_ * int64_t{sizeof(float)}; }

 private:
  Device::Memory memory_{nullptr, [](void*) {}};
  std::atomic<int64_t> capacity_ = 0;
};

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_SCRATCH_H_
