// The emulated GPUs, and the state that CUDA keeps for each host thread: the
// current GPU and the last error.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_DEVICES_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_DEVICES_H_

namespace emulated_gpu {

inline constexpr int kDevices = 2;

// Returns the calling thread's current GPU, which is GPU 0 before
// SetCurrentDevice.
int CurrentDevice();
// Makes `device` the current GPU of the calling thread. Returns false, without
// any effect, if there is no such GPU. Creates no context.
bool SetCurrentDevice(int device);

// Creates the context of the current GPU if it has none, as most functions of
// CUDA do. Returns the number of the current GPU. On a real GPU, a context
// takes hundreds of megabytes of memory, so a process should create none on
// GPUs that it does not use.
int UseContext();
// Returns true if the GPU has a context.
bool HasContext(int device);
void DestroyContext(int device);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_DEVICES_H_
