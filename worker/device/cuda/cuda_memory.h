// Allocates and frees GPU memory, and detects pinned host memory.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/cuda/stream.h"
#include "worker/device/device.h"

namespace tributary::cuda {

// Allocates zeroed memory of the stream's GPU. Waits for the stream, so that
// other streams may use the memory at once. Returns ResourceExhausted, with the
// free bytes, if memory does not suffice.
absl::StatusOr<Device::Memory> AllocateMemory(Stream& stream, size_t bytes);

// Frees memory of AllocateMemory. First waits until the GPU has completed all
// queued work, which may use the memory.
void FreeMemory(void* memory);

// Returns the free bytes of GPU number `ordinal`, or nullopt if unknown.
// Thread-safe.
std::optional<int64_t> FreeMemoryBytes(int ordinal);

// Returns true if the host memory is pinned: copies from it are asynchronous,
// so the memory must not change until they are complete.
bool IsPinned(const void* memory);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_
