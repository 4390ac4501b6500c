// Errors that tests inject into the emulated GPU.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_FAILURES_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_FAILURES_H_

#include <cstdint>

namespace emulated_gpu {

// The kinds of calls that FailNext can make fail. Each comment states the
// function and its error.
enum class Failing {
  kAllocation,  // cudaMalloc: cudaErrorMemoryAllocation.
  // A launch of a kernel, of a graph or of a library operation:
  // cudaErrorLaunchOutOfResources.
  kLaunch,
  kCopy,     // cudaMemcpyAsync: cudaErrorIllegalAddress.
  kProduct,  // cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED.
  kWait,     // A wait for a stream: cudaErrorLaunchFailure.
  kMapping,  // cudaIpcOpenMemHandle: cudaErrorMapBufferObjectFailed.
  kEvent,    // cudaEventCreateWithFlags: cudaErrorLaunchFailure.
};
// Lets `calls` more calls of this kind succeed, counted over all threads, and
// makes the call after them fail without any other effect.
void FailNext(Failing kind, int64_t calls = 0);
// Cancels all failures that FailNext has requested.
void StopFailing();
// Returns true if this call must fail. Called by each function that can fail,
// once per call.
bool Fails(Failing kind);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_FAILURES_H_
