#include "common/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace tributary::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorUnsupportedPtxVersion:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ToStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // Clears the error, so that no later call reports it.
  return absl::Status(CodeOf(error),
                      absl::StrCat(what, ": ", cudaGetErrorString(error), " (",
                                   cudaGetErrorName(error), ")"));
}

}  // namespace tributary::cuda
