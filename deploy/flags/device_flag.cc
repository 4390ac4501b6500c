#include "deploy/flags/device_flag.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {

void AddDeviceFlag(CommandLine* line, const std::string& standard,
                   std::string* value) {
  *value = standard;
  line->AddText(
      "device", "auto|cpu|cuda|cuda:N",
      absl::StrCat("Device that computes. cpu: the CPU; cuda: a GPU, a "
                   "different one for each worker of a machine; cuda:N: GPU "
                   "number N; auto: a GPU if one works, else the CPU. Default ",
                   standard, "."),
      value);
}

void AddServerDeviceFlag(CommandLine* line, const std::string& flag,
                         std::string* value) {
  *value = "cpu";
  line->AddText(
      flag, "auto|cpu|cuda|cuda:N",
      "Device on which servers sum gradients and run the optimizer; it never "
      "changes the result. cpu: the CPU; cuda: a GPU, a different one for each "
      "server of a machine; cuda:N: GPU number N; auto: a GPU if one works, "
      "else the CPU. Default cpu.",
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
                                        const Gpus& gpus, std::string* remark,
                                        const std::string& flag) {
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
  if (!insists) {
    *remark = absl::StrCat(
        FormatDeviceName(name),
        " cannot be used, so the CPU computes: ", usable.message());
    return DeviceName{Kind::kCpu};
  }
  return absl::Status(
      usable.code(),
      absl::StrCat("--", flag, " ", value, ": ", usable.message(),
                   "; `tributary devices` lists the devices, and --", flag,
                   " cpu selects the CPU"));
}

absl::StatusOr<DeviceName> ChooseServerDevice(const JobSpec& job,
                                              const std::string& value,
                                              int64_t place, const Gpus& gpus,
                                              std::string* remark,
                                              const std::string& flag) {
  TRIBUTARY_ASSIGN_OR_RETURN(const DeviceName name, ParseDeviceName(value));
  if (ResolveExchange(job).servers_update) {
    return ChooseDevice(value, place, gpus, remark, flag);
  }
  remark->clear();
  if (name.kind == DeviceName::Kind::kCuda) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, " ", value,
                     ": with exchange.all_reduce the server neither sums "
                     "gradients nor updates weights; leave --",
                     flag, " out"));
  }
  return DeviceName{DeviceName::Kind::kCpu};
}

std::string DeviceOfAll(const std::string& flag, const DeviceName& chosen) {
  return chosen.kind == DeviceName::Kind::kCpu ? "cpu" : flag;
}

}  // namespace tributary
