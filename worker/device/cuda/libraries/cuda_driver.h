// Pinning host memory by the CUDA driver alone, for builds without the CUDA
// toolkit: a program may compute on a GPU with a library that brings its own
// toolkit, such as PyTorch.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_CUDA_DRIVER_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_CUDA_DRIVER_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"

namespace tributary {

// Pointers to the functions of the driver that Tributary calls. The struct
// declares their types itself, because only the CUDA toolkit contains the
// header. All functions return 0 for success. See
// https://docs.nvidia.com/cuda/cuda-driver-api.
struct CudaDriver {
  using Gpu = int;        // CUdevice
  using Context = void*;  // CUcontext

  int (*Init)(unsigned flags);
  int (*GetErrorString)(int result, const char** text);
  int (*DeviceGetCount)(int* count);
  int (*DeviceGet)(Gpu* gpu, int ordinal);
  int (*DevicePrimaryCtxRetain)(Context* context, Gpu gpu);
  int (*CtxPushCurrent)(Context context);
  int (*CtxPopCurrent)(Context* context);
  int (*MemHostRegister)(void* memory, size_t bytes, unsigned flags);
  int (*MemHostUnregister)(void* memory);
};

// Loads the library with the soname or path `name`, and returns its functions.
// Returns FailedPrecondition if there is no such library, or if it lacks a
// function.
absl::StatusOr<CudaDriver> BindCudaDriver(const std::string& name);

// Returns the functions of the driver. The first call loads the driver's
// library for the lifetime of the process. Thread-safe. Returns
// FailedPrecondition if there is no driver.
absl::StatusOr<const CudaDriver*> LoadCudaDriver();

// Returns a function that pins host memory for GPU number `ordinal`, in the
// context that all libraries of the process use by default (the GPU's primary
// context). `driver` must outlive the function and its results. Returns
// FailedPrecondition, with the driver's reason, if the GPU cannot be used, and
// NotFound if there is no GPU with this number.
absl::StatusOr<PinMemory> PinForCuda(const CudaDriver& driver, int ordinal);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_CUDA_DRIVER_H_
