// Pinned host memory, which a GPU can copy from and to without involving the
// CPU.
#ifndef TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_
#define TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_

#include <cstddef>
#include <memory>

namespace tributary::cuda {

// Pins `bytes` bytes at `memory` for all GPUs, until the returned handle is
// released. The memory must begin with a page, and share its last page with no
// other pinned memory. Returns null if CUDA cannot pin it. This call and the
// release make GPU `ordinal` the calling thread's current device: otherwise
// CUDA could create a context on a different GPU. Thread-safe.
std::shared_ptr<void> PinHostMemory(int ordinal, void* memory, size_t bytes);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_PINNED_MEMORY_H_
