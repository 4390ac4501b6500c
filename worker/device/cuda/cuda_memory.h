// Memory of a GPU, and which memory of the host a GPU reads by itself.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/cuda/stream.h"
#include "worker/device/device.h"

namespace tributary::cuda {

// Memory of the stream's GPU, zeroed. Waits for the stream: others may use the
// memory at once. ResourceExhausted, with what is free, if the GPU is full.
absl::StatusOr<Device::Memory> AllocateMemory(Stream& stream, size_t bytes);

// Waits until the GPU has done all that was queued, so that nothing queued
// before uses the memory after it.
void FreeMemory(void* memory);

// Of GPU number `ordinal`, from any thread; absent if it cannot be asked.
std::optional<int64_t> FreeMemoryBytes(int ordinal);

// Whether a copy from the host's memory is left to the GPU, to be made at any
// time.
bool IsPinned(const void* memory);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_
