// The emulated GPUs, and what CUDA keeps for each host thread: which GPU is
// current, and the last error.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_DEVICES_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_DEVICES_H_

namespace emulated_gpu {

inline constexpr int kDevices = 2;

// The calling thread's current GPU: 0 until SetCurrentDevice.
int CurrentDevice();
// False, without any effect, if there is no such GPU.
bool SetCurrentDevice(int device);

// Creates the current GPU's context if it has none, like most functions of
// CUDA, and returns the GPU. On a real GPU a context takes hundreds of
// megabytes of memory, so that a process should have none on the GPUs of
// others.
int UseContext();
bool HasContext(int device);
void DestroyContext(int device);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_EMULATED_DEVICES_H_
