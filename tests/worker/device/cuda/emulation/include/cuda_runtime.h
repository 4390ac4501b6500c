// Stands in for CUDA's header of the same name, so that a C++ compiler builds
// the kernels of worker/device/cuda and tests run them on the CPU: as much of
// CUDA as they use. See emulated_gpu.h.
//
// One GPU, whose memory is the host's. A launch runs the kernel to its end.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_RUNTIME_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_RUNTIME_H_

#include <math.h>

#include <cstddef>
#include <cstdint>

#include "tests/worker/device/cuda/emulation/emulated_gpu.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
// Blocks run one after another, so they can share it.
#define __shared__ static

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

using emulated_gpu::blockDim;
using emulated_gpu::blockIdx;
using emulated_gpu::dim3;
using emulated_gpu::gridDim;
using emulated_gpu::threadIdx;

inline void __syncthreads() { emulated_gpu::WaitForBlock(); }

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
  const int lane = emulated_gpu::Lane();
  return emulated_gpu::Exchange(mask, value, lane ^ distance);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, int distance) {
  const int lane = emulated_gpu::Lane();
  return emulated_gpu::Exchange(mask, value,
                                lane + distance < 32 ? lane + distance : lane);
}

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorSystemNotReady = 802,
  cudaErrorSystemDriverMismatch = 803,
};
inline const char* cudaGetErrorString(cudaError_t) { return "emulated error"; }
inline const char* cudaGetErrorName(cudaError_t) { return "emulated"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }

using cudaStream_t = void*;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

// New memory is full of NaN.
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
inline cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes);
}
inline cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                            cudaStream_t stream);

enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost };
struct cudaPointerAttributes {
  cudaMemoryType type;
};
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                            const void*) {
  attributes->type = cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

struct cudaFuncAttributes {};
template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*,
                                  void (*)(Parameters...)) {
  return cudaSuccess;
}

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  cudaStream_t stream;
};
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  emulated_gpu::Run(config->gridDim, config->blockDim,
                    [&] { kernel(arguments...); });
  return cudaSuccess;
}

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_RUNTIME_H_
