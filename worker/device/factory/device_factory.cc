#include "worker/device/factory/device_factory.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {

absl::StatusOr<DeviceName> ParseDeviceName(absl::string_view name) {
  using Kind = DeviceName::Kind;
  if (name == "auto") return DeviceName{Kind::kAuto};
  if (name == "cpu") return DeviceName{Kind::kCpu};
  if (name == "cuda") return DeviceName{Kind::kCuda};
  absl::string_view number = name;
  int ordinal = 0;
  // Accept digits only: SimpleAtoi would accept blanks and signs.
  if (absl::ConsumePrefix(&number, "cuda:") &&
      std::all_of(number.begin(), number.end(), absl::ascii_isdigit) &&
      absl::SimpleAtoi(number, &ordinal)) {
    return DeviceName{Kind::kCuda, ordinal};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no device \"", name,
                   "\"; it is \"auto\", \"cpu\", \"cuda\" or \"cuda:N\", where "
                   "N counts GPUs from 0"));
}

std::string FormatDeviceName(const DeviceName& name) {
  switch (name.kind) {
    case DeviceName::Kind::kAuto:
      return "auto";
    case DeviceName::Kind::kCpu:
      return "cpu";
    case DeviceName::Kind::kCuda:
      return absl::StrCat("cuda:", name.ordinal);
  }
  return "";
}

DeviceName ResolveDeviceName(const DeviceName& name) {
  if (name.kind != DeviceName::Kind::kAuto) return name;
  return CountCudaDevices().ok() ? DeviceName{DeviceName::Kind::kCuda}
                                 : DeviceName{DeviceName::Kind::kCpu};
}

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(const DeviceName& name,
                                                     Precision precision) {
  const DeviceName resolved = ResolveDeviceName(name);
  if (resolved.kind == DeviceName::Kind::kCuda) {
    return CreateCudaDevice(resolved.ordinal, precision);
  }
  return CreateCpuDevice(precision);
}

}  // namespace tributary
