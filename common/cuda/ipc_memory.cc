#include "common/cuda/ipc_memory.h"

#include <cuda_runtime.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/stream.h"

namespace tributary::cuda {
namespace {

// CUDA maps whole pages of this size. Memory in pages of its own exposes
// nothing else to other processes.
constexpr size_t kPageBytes = size_t{2} << 20;

// The error of an operation that a fallback replaces.
absl::Status Refused(cudaError_t error, absl::string_view what) {
  return absl::FailedPreconditionError(ToStatus(error, what).message());
}

}  // namespace

absl::StatusOr<std::shared_ptr<float>> AllocateSharedMemory(
    int ordinal, int64_t bytes, DeviceMemoryHandle* handle) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream,
                             Stream::Create(ordinal));
  void* memory = nullptr;
  const size_t size =
      (static_cast<size_t>(bytes) + kPageBytes - 1) / kPageBytes * kPageBytes;
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaMalloc(&memory, size),
               absl::StrCat("no ", bytes,
                            " bytes of memory to share on cuda:", ordinal)));
  std::shared_ptr<float> owned(static_cast<float*>(memory),
                               [ordinal](float* shared) {
                                 cudaSetDevice(ordinal);
                                 cudaFree(shared);
                                 cudaGetLastError();
                               });
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(
      cudaMemsetAsync(memory, 0, size, stream->get()), "cudaMemsetAsync"));
  TRIBUTARY_RETURN_IF_ERROR(stream->Wait());
  cudaIpcMemHandle_t name;
  const cudaError_t error = cudaIpcGetMemHandle(&name, memory);
  if (error != cudaSuccess) {
    return Refused(error,
                   absl::StrCat("memory of cuda:", ordinal,
                                " cannot be shared with other processes"));
  }
  handle->process = getpid();
  handle->handle.assign(name.reserved, sizeof(name.reserved));
  handle->bytes = bytes;
  return owned;
}

absl::StatusOr<std::shared_ptr<float>> MapSharedMemory(
    int ordinal, const DeviceMemoryHandle& handle) {
  cudaIpcMemHandle_t name;
  if (handle.handle.size() != sizeof(name.reserved) || handle.bytes <= 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("a handle of ", handle.handle.size(), " bytes for ",
                     handle.bytes, " bytes of GPU memory"));
  }
  // CUDA opens no handle in the process that made it.
  if (handle.process == getpid()) {
    return absl::FailedPreconditionError(
        "the server is in the worker's process");
  }
  std::memcpy(name.reserved, handle.handle.data(), sizeof(name.reserved));
  void* memory = nullptr;
  cudaError_t error = cudaSetDevice(ordinal);
  if (error == cudaSuccess) {
    error = cudaIpcOpenMemHandle(&memory, name, cudaIpcMemLazyEnablePeerAccess);
  }
  if (error != cudaSuccess) {
    return Refused(error, absl::StrCat("the memory of the server's GPU cannot "
                                       "be mapped for cuda:",
                                       ordinal));
  }
  return std::shared_ptr<float>(static_cast<float*>(memory),
                                [ordinal](float* mapped) {
                                  cudaSetDevice(ordinal);
                                  cudaIpcCloseMemHandle(mapped);
                                  cudaGetLastError();
                                });
}

bool OwnsSharedMemory(int ordinal, const float* memory) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.device == ordinal;
}

}  // namespace tributary::cuda
