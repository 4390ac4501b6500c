// Names memory of a GPU, so that other processes can map it.
#ifndef TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_
#define TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_

#include <cstdint>
#include <string>

namespace tributary {

// Identifies GPU memory that a process of this host has allocated. Other
// processes of the same user may map the memory; see Copies::MapMemory.
struct DeviceMemoryHandle {
  int64_t process = 0;  // Id of the process that owns the memory.
  std::string handle;   // CUDA's handle of the memory, in binary form.
  int64_t bytes = 0;    // Size of the memory.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_
