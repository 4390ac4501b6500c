// Errors of the CUDA runtime as absl::Status.
#ifndef TRIBUTARY_COMMON_CUDA_CUDA_STATUS_H_
#define TRIBUTARY_COMMON_CUDA_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary::cuda {

// "`what`: <the runtime's message>". ResourceExhausted where memory is short,
// FailedPrecondition where there is no GPU, no driver that fits or no code for
// the GPU; Internal for everything else, after which the GPU cannot be used.
absl::Status ToStatus(cudaError_t error, absl::string_view what);

// Ends the process with exit code 1 and `status` as one line on stderr: for
// operations, which have no way to fail. Does not run destructors, which would
// wait for a GPU that may never answer.
[[noreturn]] void EndProcess(const absl::Status& status);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_CUDA_STATUS_H_
