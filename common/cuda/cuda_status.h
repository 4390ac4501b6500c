// Converts errors of the CUDA runtime to absl::Status.
#ifndef TRIBUTARY_COMMON_CUDA_CUDA_STATUS_H_
#define TRIBUTARY_COMMON_CUDA_CUDA_STATUS_H_

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary::cuda {

// Returns OK for cudaSuccess. Otherwise returns the status for `error`, with
// the message "`what`: <the runtime's message>". The status code is
// ResourceExhausted if memory is exhausted; FailedPrecondition if there is no
// GPU, no suitable driver or no code for the GPU; Internal for all other
// errors, after which the GPU cannot be used.
//
// Also clears the calling thread's last error, because libraries such as CUB
// would otherwise report it as their own. If an error is expected and not
// passed to this function, call cudaGetLastError() to clear it.
absl::Status ToStatus(cudaError_t error, absl::string_view what);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_CUDA_STATUS_H_
