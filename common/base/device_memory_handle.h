// Identifies GPU memory to other processes, so that they can map it.
#ifndef TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_
#define TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_

#include <cstdint>
#include <string>

namespace tributary {

// Identifies GPU memory that a process on this host has allocated. Other
// processes of the same user can map the memory; see Copies::MapMemory.
struct DeviceMemoryHandle {
  int64_t process = 0;  // Id of the process that owns the memory.
  std::string handle;   // The bytes of the memory's cudaIpcMemHandle_t.
  int64_t bytes = 0;    // Size of the memory in bytes.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_
