#include "worker/device/cuda/libraries/nvml.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "worker/device/cuda/libraries/shared_library.h"

namespace tributary {
namespace {

// Values of nvmlReturn_t.
constexpr int kNvmlSuccess = 0;
constexpr int kInsufficientSize = 7;

constexpr unsigned kMostProcesses = 4096;
constexpr unsigned long long kUnknown = ~0ull;

absl::StatusOr<Nvml> Bind() {
  TRIBUTARY_ASSIGN_OR_RETURN(const cuda::SharedLibrary library,
                             cuda::SharedLibrary::Open("libnvidia-ml.so.1"));
  Nvml nvml;
  // Versions that nvml.h selects for drivers from 450 (2020) on.
  TRIBUTARY_RETURN_IF_ERROR(library.Bind({
      {"nvmlInit_v2", &nvml.Init},
      {"nvmlShutdown", &nvml.Shutdown},
      {"nvmlErrorString", &nvml.ErrorString},
      {"nvmlDeviceGetCount_v2", &nvml.DeviceGetCount},
      {"nvmlDeviceGetHandleByIndex_v2", &nvml.DeviceGetHandleByIndex},
      {"nvmlDeviceGetName", &nvml.DeviceGetName},
      {"nvmlDeviceGetPciInfo_v3", &nvml.DeviceGetPciInfo},
      {"nvmlDeviceGetMemoryInfo", &nvml.DeviceGetMemoryInfo},
      {"nvmlDeviceGetUtilizationRates", &nvml.DeviceGetUtilizationRates},
      {"nvmlDeviceGetTemperature", &nvml.DeviceGetTemperature},
      {"nvmlDeviceGetComputeRunningProcesses_v3",
       &nvml.DeviceGetComputeRunningProcesses},
  }));
  return nvml;
}

absl::Status ToStatus(const Nvml& nvml, int result) {
  if (result == kNvmlSuccess) return absl::OkStatus();
  return absl::FailedPreconditionError(nvml.ErrorString(result));
}

std::vector<GpuProcess> ReadProcesses(const Nvml& nvml, Nvml::Gpu gpu) {
  std::vector<Nvml::Process> entries(64);
  unsigned count = static_cast<unsigned>(entries.size());
  int result =
      nvml.DeviceGetComputeRunningProcesses(gpu, &count, entries.data());
  if (result == kInsufficientSize) {
    // Room for processes that start meanwhile.
    entries.resize(std::min(2 * count, kMostProcesses));
    count = static_cast<unsigned>(entries.size());
    result = nvml.DeviceGetComputeRunningProcesses(gpu, &count, entries.data());
  }
  std::vector<GpuProcess> processes;
  if (result != kNvmlSuccess) return processes;
  for (unsigned i = 0; i < count; ++i) {
    GpuProcess process;
    process.pid = entries[i].pid;
    if (entries[i].used_bytes != kUnknown) {
      process.memory_bytes = static_cast<int64_t>(entries[i].used_bytes);
    }
    processes.push_back(process);
  }
  return processes;
}

GpuReport ReadGpu(const Nvml& nvml, Nvml::Gpu gpu) {
  GpuReport report;
  char name[96] = {};
  if (nvml.DeviceGetName(gpu, name, sizeof(name)) == kNvmlSuccess) {
    report.name = name;
  }
  Nvml::PciInfo pci = {};
  if (nvml.DeviceGetPciInfo(gpu, &pci) == kNvmlSuccess) {
    // In CUDA's format, with four digits of the domain instead of eight.
    report.bus_id =
        absl::StrFormat("%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
  }
  Nvml::Memory memory = {};
  if (nvml.DeviceGetMemoryInfo(gpu, &memory) == kNvmlSuccess) {
    report.memory_bytes = static_cast<int64_t>(memory.total);
    report.used_bytes = static_cast<int64_t>(memory.used);
  }
  Nvml::Utilization utilization = {};
  if (nvml.DeviceGetUtilizationRates(gpu, &utilization) == kNvmlSuccess) {
    report.utilization_percent = static_cast<int>(utilization.gpu);
  }
  unsigned degrees = 0;
  if (nvml.DeviceGetTemperature(gpu, /*sensor=*/0, &degrees) == kNvmlSuccess) {
    report.degrees = static_cast<int>(degrees);
  }
  report.processes = ReadProcesses(nvml, gpu);
  return report;
}

}  // namespace

absl::StatusOr<const Nvml*> LoadNvml() { return cuda::BindOnce(&Bind); }

absl::StatusOr<std::vector<GpuReport>> ReadGpus(const Nvml& nvml) {
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(nvml, nvml.Init()));
  const absl::Cleanup shutdown = [&nvml] { nvml.Shutdown(); };
  unsigned count = 0;
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(nvml, nvml.DeviceGetCount(&count)));
  std::vector<GpuReport> reports;
  for (unsigned i = 0; i < count; ++i) {
    Nvml::Gpu gpu = nullptr;
    // A GPU that has fallen off the bus leaves a gap.
    if (nvml.DeviceGetHandleByIndex(i, &gpu) != kNvmlSuccess) continue;
    reports.push_back(ReadGpu(nvml, gpu));
  }
  return reports;
}

}  // namespace tributary
