// Creation of devices by name.
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
    kAuto,  // A GPU if there is one, otherwise the CPU.
    kCpu,
    kCuda,
  };

  Kind kind = Kind::kAuto;
  int ordinal = 0;  // GPU number in CUDA's order, for kCuda.
};

// Parses "auto", "cpu", "cuda" (the first GPU) or "cuda:N". Returns
// InvalidArgument, listing the permitted names, for anything else.
absl::StatusOr<DeviceName> ParseDeviceName(absl::string_view name);

// Formats `name` in the form that ParseDeviceName accepts: "auto", "cpu",
// "cuda:0", ...
std::string FormatDeviceName(const DeviceName& name);

// For kAuto, returns the name of the first GPU if CUDA can use one, and the
// name of the CPU otherwise; this initializes the CUDA driver. Returns all
// other names unchanged.
DeviceName ResolveDeviceName(const DeviceName& name);

// Creates the device. For kCuda, returns the errors of CreateCudaDevice, such
// as FailedPrecondition if this build has no CUDA or this machine has no GPU,
// and NotFound for a GPU that does not exist. kAuto is resolved first; if it
// selects a GPU that has an error, returns the error instead of falling back to
// the CPU.
absl::StatusOr<std::unique_ptr<Device>> CreateDevice(
    const DeviceName& name, Precision precision = Precision::kFloat32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_FACTORY_DEVICE_FACTORY_H_
