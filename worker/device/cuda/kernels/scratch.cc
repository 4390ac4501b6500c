#include "worker/device/cuda/kernels/scratch.h"

#include <cuda_runtime.h>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_status.h"

namespace tributary::cuda {

Scratch::~Scratch() { Free(); }

void Scratch::Free() {
  // Both functions wait until the GPU no longer uses the memory.
  if (place_ == Place::kDevice) {
    cudaFree(memory_);
  } else {
    cudaFreeHost(memory_);
  }
}

void* Scratch::Bytes(size_t bytes) {
  if (bytes <= capacity_ || !stream_->status().ok()) return memory_;
  Free();
  memory_ = nullptr;
  capacity_ = 0;
  ++*growths_;
  const cudaError_t error = place_ == Place::kDevice
                                ? cudaMalloc(&memory_, bytes)
                                : cudaMallocHost(&memory_, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();  // Not an error of a later call.
    memory_ = nullptr;
    stream_->Check(ToStatus(
        error,
        absl::StrCat("cannot allocate ", bytes,
                     " bytes of working memory on cuda:", stream_->ordinal())));
    return nullptr;
  }
  capacity_ = bytes;
  return memory_;
}

float* Scratch::Floats(int64_t count) {
  return static_cast<float*>(Bytes(static_cast<size_t>(count) * sizeof(float)));
}

}  // namespace tributary::cuda
