// Host memory for arenas and activations.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_MEMORY_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_MEMORY_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace tributary::cpu {

// Allocates zeroed memory, aligned to 64 bytes. Memory of 2 MiB or more is
// aligned to 2 MiB and uses huge pages if the system grants them, because each
// 4 KiB page would cost a TLB entry and a page fault. Returns ResourceExhausted
// if memory does not suffice. Thread-safe.
absl::StatusOr<Device::Memory> AllocateHostMemory(size_t bytes);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_KERNELS_MEMORY_H_
