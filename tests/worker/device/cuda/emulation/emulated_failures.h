// Errors of the emulated GPU, which tests ask for.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_FAILURES_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_FAILURES_H_

#include <cstdint>

namespace emulated_gpu {

// What FailNext makes fail, and with which error.
enum class Failing {
  kAllocation,  // cudaMalloc: cudaErrorMemoryAllocation.
  // A launch of a kernel, a graph or a library: cudaErrorLaunchOutOfResources.
  kLaunch,
  kCopy,     // cudaMemcpyAsync: cudaErrorIllegalAddress.
  kProduct,  // cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED.
  kWait,     // Waiting for a stream: cudaErrorLaunchFailure.
};
// After `calls` more calls of this kind, of all threads, the next one fails and
// does nothing else.
void FailNext(Failing kind, int64_t calls = 0);
// Nothing fails any more.
void StopFailing();
// For the functions that may fail: whether this call does.
bool Fails(Failing kind);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_FAILURES_H_
