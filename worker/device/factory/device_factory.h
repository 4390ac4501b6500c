// Devices by name.
#ifndef TRIBUTARY_WORKER_DEVICE_FACTORY_DEVICE_FACTORY_H_
#define TRIBUTARY_WORKER_DEVICE_FACTORY_DEVICE_FACTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/device/device.h"

namespace tributary {

struct DeviceName {
  enum class Kind {
    kAuto,  // A GPU where there is one, else the CPU.
    kCpu,
    kCuda,
  };

  Kind kind = Kind::kAuto;
  int ordinal = 0;  // Which GPU, for kCuda, as CUDA counts them.
};

// "auto", "cpu", "cuda" (the first GPU) or "cuda:N". InvalidArgument, with what
// is allowed, for anything else.
absl::StatusOr<DeviceName> ParseDeviceName(absl::string_view name);

// As ParseDeviceName reads it: "auto", "cpu", "cuda:0", ...
std::string FormatDeviceName(const DeviceName& name);

// What kAuto stands for on this machine, with this build; other names as they
// are. Starts the CUDA driver.
DeviceName ResolveDeviceName(const DeviceName& name);

// For kCuda, errors as of CreateCudaDevice: FailedPrecondition where this build
// has no CUDA or this machine no GPU, NotFound for a GPU that it lacks. kAuto
// is resolved first; once a GPU is found, its errors are errors.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    const DeviceName& name, Precision precision = Precision::kFloat32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_FACTORY_DEVICE_FACTORY_H_
