// What a Python program needs to use the emulated GPU, whose memory is memory
// of the host.
#include <cuda_runtime.h>

// Blocks until the work that has been queued on a stream (a cudaStream_t) is
// complete. Returns false if it has failed.
extern "C" bool emulated_gpu_wait(void* stream) {
  return cudaStreamSynchronize(static_cast<cudaStream_t>(stream)) ==
         cudaSuccess;
}
