#include "common/cuda/pinned_memory.h"

#include <cuda_runtime.h>

namespace tributary::cuda {

std::shared_ptr<void> PinHostMemory(void* memory, size_t bytes) {
  cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
  // What a server has written is mapped for reading alone.
  if (error != cudaSuccess) {
    error = cudaHostRegister(
        memory, bytes, cudaHostRegisterPortable | cudaHostRegisterReadOnly);
  }
  if (error != cudaSuccess) {
    cudaGetLastError();  // Not an error of a later call.
    return nullptr;
  }
  return std::shared_ptr<void>(memory, [](void* pinned) {
    cudaHostUnregister(pinned);
    cudaGetLastError();
  });
}

}  // namespace tributary::cuda
