// GPU memory that processes of one user on one host share.
#ifndef TRIBUTARY_COMMON_CUDA_IPC_MEMORY_H_
#define TRIBUTARY_COMMON_CUDA_IPC_MEMORY_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/device_memory_handle.h"

namespace tributary::cuda {

// These functions use the handles of CUDA IPC rather than the file descriptors
// of CUDA's virtual memory management. A handle is 64 bytes, so it fits into
// the messages that offer shared host memory. A descriptor would need a Unix
// socket beside gRPC's, because the kernel does not let a process reopen such a
// descriptor through /proc, as it does with the host memory of SharedMemory.

// Allocates `bytes` bytes of zeroed memory on GPU `ordinal`, and writes to
// `*handle` the handle with which other processes can map it. The memory is
// freed when the last reference is released. Returns ResourceExhausted if the
// GPU does not have enough free memory, and FailedPrecondition if the driver
// cannot share memory.
absl::StatusOr<std::shared_ptr<float>> AllocateSharedMemory(
    int ordinal, int64_t bytes, DeviceMemoryHandle* handle);

// Maps the memory of another process for operations and copies on GPU
// `ordinal`. The memory is unmapped when the last reference is released; all
// queued work that uses the memory must have completed by then. The memory may
// belong to a different GPU if GPU `ordinal` can access that GPU's memory
// directly. Returns FailedPrecondition, with the reason, if the memory cannot
// be mapped; GPU `ordinal` stays usable.
absl::StatusOr<std::shared_ptr<float>> MapSharedMemory(
    int ordinal, const DeviceMemoryHandle& handle);

// Returns true if memory that MapSharedMemory has mapped for GPU `ordinal`
// belongs to this GPU, and false if it belongs to a different GPU.
bool OwnsSharedMemory(int ordinal, const float* memory);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_IPC_MEMORY_H_
