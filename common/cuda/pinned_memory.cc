#include "common/cuda/pinned_memory.h"

#include <cuda_runtime.h>

namespace tributary::cuda {

std::shared_ptr<void> PinHostMemory(void* memory, size_t bytes) {
  cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
  // Memory that a server shares is mapped read-only.
  if (error != cudaSuccess) {
    error = cudaHostRegister(
        memory, bytes, cudaHostRegisterPortable | cudaHostRegisterReadOnly);
  }
  if (error != cudaSuccess) {
    cudaGetLastError();  // Clears the error, so that no later call reports it.
    return nullptr;
  }
  return std::shared_ptr<void>(memory, [](void* pinned) {
    cudaHostUnregister(pinned);
    cudaGetLastError();
  });
}

}  // namespace tributary::cuda
