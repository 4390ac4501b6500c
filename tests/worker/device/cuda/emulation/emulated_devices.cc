#include "tests/worker/device/cuda/emulation/emulated_devices.h"

#include <atomic>
#include <utility>

#include "cuda_runtime.h"

namespace emulated_gpu {
namespace {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

std::atomic<bool> contexts[kDevices];

}  // namespace

int CurrentDevice() { return current_device; }

bool SetCurrentDevice(int device) {
  if (device < 0 || device >= kDevices) return false;
  current_device = device;
  return true;
}

int UseContext() {
  contexts[current_device] = true;
  return current_device;
}

bool HasContext(int device) { return contexts[device]; }
void DestroyContext(int device) { contexts[device] = false; }

cudaError_t Keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace emulated_gpu

cudaError_t cudaGetLastError() {
  return std::exchange(emulated_gpu::last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() { return emulated_gpu::last_error; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulated_gpu::kDevices;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (!emulated_gpu::SetCurrentDevice(device)) {
    return emulated_gpu::Keep(cudaErrorInvalidDevice);
  }
  emulated_gpu::UseContext();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = emulated_gpu::CurrentDevice();
  return cudaSuccess;
}
cudaError_t cudaDeviceReset() {
  emulated_gpu::DestroyContext(emulated_gpu::CurrentDevice());
  return cudaSuccess;
}
