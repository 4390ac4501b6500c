// Names memory of a GPU, so that other processes can map it.
#ifndef TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_
#define TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_

#include <cstdint>
#include <string>

namespace tributary {

// Memory of a GPU that belongs to a process of this host. Other processes of
// the same user may map it; see Copies::MapMemory.
struct DeviceMemoryHandle {
  int64_t process = 0;  // Process id of the owner.
  std::string handle;   // The bytes of CUDA's handle.
  int64_t bytes = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_DEVICE_MEMORY_HANDLE_H_
