#include "worker/device/cpu/kernels/scratch.h"

#include <new>
#include <utility>

#include "worker/device/cpu/kernels/memory.h"

namespace tributary::cpu {

float* Scratch::Floats(int64_t count) {
  if (count > capacity_) {
    memory_.reset();
    auto memory = AllocateHostMemory(count * sizeof(float));
    if (!memory.ok()) {
      capacity_ = 0;
      throw std::bad_alloc();
    }
    memory_ = *std::move(memory);
    capacity_ = count;
  }
  return static_cast<float*>(memory_.get());
}

}  // namespace tributary::cpu
