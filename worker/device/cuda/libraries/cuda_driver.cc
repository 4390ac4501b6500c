#include "worker/device/cuda/libraries/cuda_driver.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/libraries/shared_library.h"

namespace tributary {
namespace {

// CUDA_SUCCESS, CU_MEMHOSTREGISTER_PORTABLE and CU_MEMHOSTREGISTER_READ_ONLY.
constexpr int kCudaSuccess = 0;
constexpr unsigned kPortable = 1;
constexpr unsigned kReadOnly = 8;

}  // namespace

absl::StatusOr<CudaDriver> BindCudaDriver(const std::string& name) {
  TRIBUTARY_ASSIGN_OR_RETURN(const cuda::SharedLibrary library,
                             cuda::SharedLibrary::Open(name));
  CudaDriver driver;
  // Versions that cuda.h selects for drivers from CUDA 11 (2020) on.
  TRIBUTARY_RETURN_IF_ERROR(library.Bind({
      {"cuInit", &driver.Init},
      {"cuGetErrorString", &driver.GetErrorString},
      {"cuDeviceGetCount", &driver.DeviceGetCount},
      {"cuDeviceGet", &driver.DeviceGet},
      {"cuDevicePrimaryCtxRetain", &driver.DevicePrimaryCtxRetain},
      {"cuCtxPushCurrent_v2", &driver.CtxPushCurrent},
      {"cuCtxPopCurrent_v2", &driver.CtxPopCurrent},
      {"cuMemHostRegister_v2", &driver.MemHostRegister},
      {"cuMemHostUnregister", &driver.MemHostUnregister},
  }));
  return driver;
}

namespace {

absl::Status ToStatus(const CudaDriver& driver, int result) {
  if (result == kCudaSuccess) return absl::OkStatus();
  const char* text = nullptr;
  driver.GetErrorString(result, &text);
  return absl::FailedPreconditionError(absl::StrCat(
      "CUDA's driver: ",
      text != nullptr ? text : absl::StrCat("error ", result).c_str()));
}

// Makes a context the thread's current context during its lifetime.
class Current {
 public:
  Current(const CudaDriver& driver, CudaDriver::Context context)
      : driver_(driver), ok_(driver.CtxPushCurrent(context) == kCudaSuccess) {}
  ~Current() {
    CudaDriver::Context context;
    if (ok_) driver_.CtxPopCurrent(&context);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  bool ok() const { return ok_; }

 private:
  const CudaDriver& driver_;
  const bool ok_;
};

}  // namespace

absl::StatusOr<const CudaDriver*> LoadCudaDriver() {
  return cuda::BindOnce([] { return BindCudaDriver("libcuda.so.1"); });
}

absl::StatusOr<PinMemory> PinForCuda(const CudaDriver& driver, int ordinal) {
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(driver, driver.Init(0)));
  int count = 0;
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(driver, driver.DeviceGetCount(&count)));
  if (count == 0) {
    return absl::FailedPreconditionError("CUDA's driver: there is no GPU");
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::NotFoundError(
        absl::StrCat("there is no cuda:", ordinal,
                     "; the last GPU of this machine is cuda:", count - 1));
  }
  CudaDriver::Gpu gpu = 0;
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(driver, driver.DeviceGet(&gpu, ordinal)));
  // Never released: the program's own libraries use it until the end, too.
  CudaDriver::Context context = nullptr;
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(driver, driver.DevicePrimaryCtxRetain(&context, gpu)));
  return [driver = &driver, context](void* memory,
                                     size_t bytes) -> std::shared_ptr<void> {
    const Current current(*driver, context);
    if (!current.ok()) return nullptr;
    // Memory that a server shares is mapped read-only.
    for (const unsigned access : {0u, kReadOnly}) {
      if (driver->MemHostRegister(memory, bytes, kPortable | access) !=
          kCudaSuccess) {
        continue;
      }
      return std::shared_ptr<void>(memory, [driver, context](void* pinned) {
        const Current current(*driver, context);
        driver->MemHostUnregister(pinned);
      });
    }
    return nullptr;
  };
}

}  // namespace tributary
