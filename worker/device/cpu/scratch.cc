#include "worker/device/cpu/scratch.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "worker/device/cpu/memory.h"

namespace tributary::cpu {

float* Scratch::Floats(int64_t count) {
  if (count > capacity_) {
    memory_.reset();
    auto memory = AllocateHostMemory(count * sizeof(float));
    if (!memory.ok()) {
      std::fprintf(stderr, "out of memory in an operation: %s\n",
                   std::string(memory.status().message()).c_str());
      std::abort();
    }
    memory_ = *std::move(memory);
    capacity_ = count;
  }
  return static_cast<float*>(memory_.get());
}

}  // namespace tributary::cpu
