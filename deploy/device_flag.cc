#include "deploy/device_flag.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {

void AddDeviceFlag(CommandLine* line, const std::string& standard,
                   std::string* value) {
  *value = standard;
  line->AddText("device", "auto|cpu|cuda|cuda:N",
                absl::StrCat("What computes: the CPU; a GPU, of which each "
                             "worker of a machine takes another; the GPU of "
                             "that number; auto: a GPU where there is one that "
                             "works, else the CPU. Default ",
                             standard, "."),
                value);
}

Gpus MachineGpus() {
  return {&CountCudaDevices,
          [](int ordinal) { return CreateCudaDevice(ordinal).status(); }};
}

Gpus ListedGpus() {
  return {
      &CountCudaDevices, [](int ordinal) -> absl::Status {
        TRIBUTARY_ASSIGN_OR_RETURN(const int count, CountCudaDevices());
        if (ordinal < count) return absl::OkStatus();
        return absl::NotFoundError(absl::StrCat("there is no cuda:", ordinal));
      }};
}

absl::StatusOr<DeviceName> ChooseDevice(const std::string& value, int64_t place,
                                        const Gpus& gpus, std::string* remark) {
  using Kind = DeviceName::Kind;
  remark->clear();
  TRIBUTARY_ASSIGN_OR_RETURN(DeviceName name, ParseDeviceName(value));
  if (name.kind == Kind::kCpu) return name;
  const bool insists = name.kind == Kind::kCuda;
  const absl::StatusOr<int> count = gpus.count();
  if (!count.ok() && !insists) return DeviceName{Kind::kCpu};
  absl::Status usable = count.status();
  if (usable.ok()) {
    if (!insists || value == "cuda") {
      name = {Kind::kCuda, static_cast<int>(place % *count)};
    }
    usable = gpus.check(name.ordinal);
  }
  if (usable.ok()) return name;
  if (!insists && absl::IsFailedPrecondition(usable)) {
    *remark = absl::StrCat(
        FormatDeviceName(name),
        " cannot be used, so the CPU computes: ", usable.message());
    return DeviceName{Kind::kCpu};
  }
  return absl::Status(
      usable.code(),
      absl::StrCat("--device ", value, ": ", usable.message(),
                   "; `tributary devices` lists what there is, and --device "
                   "cpu computes without a GPU"));
}

}  // namespace tributary
