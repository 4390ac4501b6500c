#include "common/cuda/pinned_memory.h"

#include <cuda_runtime.h>

namespace tributary::cuda {

std::shared_ptr<void> PinHostMemory(int ordinal, void* memory, size_t bytes) {
  // Memory that a server shares is mapped read-only.
  for (const unsigned access : {0u, unsigned{cudaHostRegisterReadOnly}}) {
    if (cudaSetDevice(ordinal) == cudaSuccess &&
        cudaHostRegister(memory, bytes, cudaHostRegisterPortable | access) ==
            cudaSuccess) {
      return std::shared_ptr<void>(memory, [ordinal](void* pinned) {
        cudaSetDevice(ordinal);
        cudaHostUnregister(pinned);
        cudaGetLastError();
      });
    }
    cudaGetLastError();  // Clears the error, so that no later call reports it.
  }
  return nullptr;
}

}  // namespace tributary::cuda
