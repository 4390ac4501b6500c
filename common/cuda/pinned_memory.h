// Pinned host memory, which a GPU copies without the CPU.
#ifndef TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_
#define TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_

#include <cstddef>
#include <memory>

namespace tributary::cuda {

// Pins whole pages of this process's memory, for all GPUs, for the lifetime of
// the returned handle. Returns null if CUDA cannot pin them. Makes GPU number
// `ordinal` the calling thread's current device, as does the handle's release,
// so that neither uses another GPU. Thread-safe.
std::shared_ptr<void> PinHostMemory(int ordinal, void* memory, size_t bytes);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_
