// Pinned host memory, which a GPU copies without the CPU.
#ifndef TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_
#define TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_

#include <cstddef>
#include <memory>

namespace tributary::cuda {

// Pins whole pages of this process's memory for the lifetime of the returned
// handle. Returns null if CUDA cannot pin them. Thread-safe.
std::shared_ptr<void> PinHostMemory(void* memory, size_t bytes);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_
