// Host memory that a GPU's copies use without the host.
#ifndef TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_
#define TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_

#include <cstddef>
#include <memory>

namespace tributary::cuda {

// Pins whole pages of this process's memory, for as long as the handle lives;
// null where CUDA does not. Any thread.
std::shared_ptr<void> PinHostMemory(void* memory, size_t bytes);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_
