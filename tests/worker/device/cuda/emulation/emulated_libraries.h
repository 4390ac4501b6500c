// Functions that the emulated cuBLASLt and cuDNN share.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_LIBRARIES_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_LIBRARIES_H_

#include <functional>

namespace emulated_gpu {

class Stream;

// Ends the process with the message `what` unless `is_right` is true. For
// checks of arguments that the library must not receive.
void Check(bool is_right, const char* what);

// Returns `x` rounded to nearest, ties to even, with 10 fraction bits.
float RoundToTf32(float x);

// Queues `work` on the stream. `work` must not wait for other work.
void EnqueueWork(Stream* stream, std::function<void()> work);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_LIBRARIES_H_
