// Identifies GPU memory to other processes, so that they can map it.
#ifndef TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_
#define TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_

#include <cstdint>
#include <memory>
#include <string>

namespace tributary {

// Identifies GPU memory that a process on this host has allocated. Other
// processes of the same user can map the memory; see Copies::MapMemory.
struct DeviceMemoryHandle {
  int64_t process = 0;  // Id of the process that owns the memory.
  std::string handle;   // The bytes of the memory's cudaIpcMemHandle_t.
  int64_t bytes = 0;    // Size of the memory in bytes.
};

// GPU memory of another process, mapped into this process for use by one GPU.
struct MappedDeviceMemory {
  // The mapping ends when the last reference is released.
  std::shared_ptr<float> memory;
  // True if the memory belongs to the GPU that uses it. False if that GPU
  // accesses the memory of a different GPU, which is slower.
  bool local = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_
