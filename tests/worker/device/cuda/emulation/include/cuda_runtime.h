// Replaces CUDA's header of the same name, so that a C++ compiler can build the
// kernels of worker/device/cuda and tests can run them on the CPU. Declares
// only what they use. See emulated_gpu.h.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_RUNTIME_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_RUNTIME_H_

#include <math.h>
#include <string.h>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "tests/worker/device/cuda/emulation/emulated_failures.h"
#include "tests/worker/device/cuda/emulation/emulated_gpu.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
// Blocks run one after another, so they can share one static variable.
// kernels.bzl adds a call of emulated_gpu::BeginShared after each declaration.
#define __shared__ static

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
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
T __shfl_sync(unsigned mask, T value, int source) {
  return emulated_gpu::Exchange(mask, value, source % 32);
}
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

// Arithmetic that is correctly rounded to nearest, like the arithmetic of the
// processor.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorDeviceUninitialized = 201,
  cudaErrorMapBufferObjectFailed = 205,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorPeerAccessUnsupported = 217,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorHostMemoryAlreadyRegistered = 712,
  cudaErrorHostMemoryNotRegistered = 713,
  cudaErrorLaunchFailure = 719,
  cudaErrorSystemNotReady = 802,
  cudaErrorSystemDriverMismatch = 803,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
inline const char* cudaGetErrorString(cudaError_t) { return "emulated error"; }
inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorMapBufferObjectFailed:
      return "cudaErrorMapBufferObjectFailed";
    case cudaErrorPeerAccessUnsupported:
      return "cudaErrorPeerAccessUnsupported";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchOutOfResources:
      return "cudaErrorLaunchOutOfResources";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "emulated";
  }
}

// Each function below that returns an error other than cudaSuccess, including
// cudaErrorNotReady, also stores it as the last error of the calling thread.
// cudaGetLastError returns the last error and resets it; cudaPeekAtLastError
// does not reset it.
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
namespace emulated_gpu {
// Stores `error` as the last error of the calling thread unless it is
// cudaSuccess, and returns it.
cudaError_t Keep(cudaError_t error);
// Returns the error with which a launch of a kernel or of a library operation
// must fail, or cudaSuccess. Also returns errors of earlier calls, which CUDA
// itself does only for launches by libraries. This reveals errors that the code
// has not reset.
cudaError_t CheckLaunch(Stream* stream);
}  // namespace emulated_gpu

// See emulated_devices.h for the functions below.
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceReset();

struct cudaDeviceProp {
  char name[256];
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"Emulated GPU"};
  return cudaSuccess;
}

inline cudaError_t cudaDeviceGetPCIBusId(char* bus_id, int, int device) {
  strcpy(bus_id, device == 0 ? "0000:00:00.0" : "0000:01:00.0");
  return cudaSuccess;
}

// See emulated_streams.h for streams and events.
using cudaStream_t = emulated_gpu::Stream*;
inline constexpr unsigned cudaStreamNonBlocking = 1;
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);

using cudaEvent_t = emulated_gpu::Event*;
inline constexpr unsigned cudaEventBlockingSync = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags);

// Only kernels, copies on the device, copies from and to pinned memory, and
// cudaMemsetAsync can be captured. This is stricter than CUDA. Any other call
// in the capturing thread makes the capture invalid.
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
using cudaGraph_t = emulated_gpu::Graph*;
using cudaGraphExec_t = emulated_gpu::Graph*;
cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

// cudaMalloc fills the memory with NaN.
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, size_t bytes);
cudaError_t cudaFreeHost(void* memory);
// Let another process map device memory. Like CUDA, cudaIpcOpenMemHandle fails
// in the process that owns the memory, unless SetOwnMapping allows it, and for
// memory of a different GPU unless the GPUs can access each other's memory and
// `flags` allows it. Accesses after cudaIpcCloseMemHandle raise SIGSEGV.
// cudaFree of memory that a living process has mapped writes a line to stderr.
struct cudaIpcMemHandle_t {
  char reserved[64];
};
inline constexpr unsigned cudaIpcMemLazyEnablePeerAccess = 1;
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory);
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle,
                                 unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void* memory);

inline constexpr unsigned cudaHostRegisterPortable = 1;
inline constexpr unsigned cudaHostRegisterReadOnly = 8;
// Returns an error for memory that this process cannot write, unless `flags`
// includes cudaHostRegisterReadOnly.
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void* memory);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

enum cudaMemcpyKind {
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
};
// With pageable memory, CUDA may copy before this function returns or later.
// The emulation copies as late as any other work.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes,
                            cudaStream_t stream);

enum cudaMemoryType {
  cudaMemoryTypeUnregistered,
  cudaMemoryTypeHost,
  cudaMemoryTypeDevice,
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
};
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* memory);

struct cudaFuncAttributes {};
template <typename... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*,
                                  void (*)(Parameters...)) {
  emulated_gpu::UseContext();
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
  const cudaError_t error = emulated_gpu::CheckLaunch(config->stream);
  if (error != cudaSuccess) return error;
  emulated_gpu::Enqueue(
      config->stream,
      [device = emulated_gpu::DeviceOf(config->stream), grid = config->gridDim,
       block = config->blockDim, kernel,
       values = std::make_tuple(std::decay_t<Arguments>(arguments)...)] {
        const emulated_gpu::Running running(device);
        emulated_gpu::Run(grid, block, [&] { std::apply(kernel, values); });
        return true;
      });
  return cudaSuccess;
}

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_CUDA_RUNTIME_H_
