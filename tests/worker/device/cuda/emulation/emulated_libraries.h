// What the libraries of the emulated GPU have in common.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_LIBRARIES_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_LIBRARIES_H_

#include <functional>

namespace emulated_gpu {

class Stream;

// Ends the process: a call that the library must not get.
void Check(bool is_right, const char* what);

// To the nearest number with 10 bits of fraction.
float RoundToTf32(float x);

// `work`, which waits for nothing, is part of the stream's.
void EnqueueWork(Stream* stream, std::function<void()> work);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_LIBRARIES_H_
