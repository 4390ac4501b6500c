#include "worker/device/cuda/cuda_memory.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"

namespace tributary::cuda {
namespace {

absl::Status NoMemory(int ordinal, size_t bytes) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return absl::ResourceExhaustedError(
      absl::StrCat("no ", bytes, " bytes of GPU memory on cuda:", ordinal, ": ",
                   free, " of ", total, " bytes are free"));
}

// Waits until the GPU no longer uses the memory.
template <int kOrdinal>
void FreeMemoryOn(void* memory) {
  cudaSetDevice(kOrdinal);
  cudaFree(memory);
}

// Device::Memory's deleter has no state, so there is one for each GPU.
using Deleter = void (*)(void*);
template <int... kOrdinals>
constexpr std::array<Deleter, sizeof...(kOrdinals)> DeletersOf(
    std::integer_sequence<int, kOrdinals...>) {
  return {&FreeMemoryOn<kOrdinals>...};
}

// Exceeds the number of GPUs of any machine.
constexpr int kMaximumGpus = 64;

Deleter DeleterOf(int ordinal) {
  static constexpr auto kDeleters =
      DeletersOf(std::make_integer_sequence<int, kMaximumGpus>());
  return kDeleters.at(ordinal);
}

}  // namespace

absl::StatusOr<Device::Memory> AllocateMemory(Stream& stream, size_t bytes) {
  void* memory = nullptr;
  // CUDA gives null for 0 bytes.
  const cudaError_t error = cudaMalloc(&memory, std::max<size_t>(bytes, 1));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // Not an error of a later call.
    return NoMemory(stream.ordinal(), bytes);
  }
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(error, "cudaMalloc"));
  Device::Memory owned(memory, DeleterOf(stream.ordinal()));
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(
      cudaMemsetAsync(memory, 0, bytes, stream.get()), "cudaMemsetAsync"));
  TRIBUTARY_RETURN_IF_ERROR(stream.Wait());
  return owned;
}

std::optional<int64_t> FreeMemoryBytes(int ordinal) {
  size_t free = 0, total = 0;
  if (cudaSetDevice(ordinal) != cudaSuccess ||
      cudaMemGetInfo(&free, &total) != cudaSuccess) {
    cudaGetLastError();  // Not an error of a later call.
    return std::nullopt;
  }
  return static_cast<int64_t>(free);
}

}  // namespace tributary::cuda
