// Allocates and frees GPU memory.
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
// other streams may use the memory at once. Returns ResourceExhausted, stating
// the free bytes, if memory does not suffice. Freeing the memory, on any
// thread, first waits until the GPU has completed all queued work, because that
// work may use the memory.
absl::StatusOr<Device::Memory> AllocateMemory(Stream& stream, size_t bytes);

// Returns how many bytes of memory are free on GPU number `ordinal`, or nullopt
// if unknown. Makes this GPU the calling thread's current CUDA device.
// Thread-safe.
std::optional<int64_t> FreeMemoryBytes(int ordinal);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_
