// Memory of a GPU.
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
// Freeing it, on any thread, waits until the GPU has done all that was queued,
// so that nothing queued before uses the memory after it.
absl::StatusOr<Device::Memory> AllocateMemory(Stream& stream, size_t bytes);

// Of GPU number `ordinal`, from any thread; absent if it cannot be asked.
std::optional<int64_t> FreeMemoryBytes(int ordinal);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_MEMORY_H_
