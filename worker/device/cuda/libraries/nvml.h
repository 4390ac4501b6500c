// GPU utilization and processes, using NVIDIA's management library (NVML). The
// library is part of the driver and loaded on first use.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NVML_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NVML_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary {

struct GpuProcess {
  int64_t pid = 0;
  // Bytes of GPU memory that the process uses; nullopt if the driver does not
  // report it, as in most containers.
  std::optional<int64_t> memory_bytes;
};

struct GpuReport {
  std::string name;
  std::string bus_id;  // PCI address, such as "0000:3b:00.0", in lower case.
  int64_t memory_bytes = 0;  // Total memory of the GPU.
  int64_t used_bytes = 0;    // Memory in use, by all processes.
  // Utilization: the percentage of time during which the GPU computed, over
  // about the last second. nullopt if the driver does not report it.
  std::optional<int> utilization_percent;
  std::optional<int> degrees;  // Celsius; nullopt if the driver does not tell.
  std::vector<GpuProcess> processes;  // Processes that compute on the GPU.
};

// Pointers to the functions of NVML that Tributary calls. The struct declares
// their types itself, because only the CUDA toolkit contains NVML's header. All
// functions return 0 for success. See https://docs.nvidia.com/deploy/nvml-api.
struct Nvml {
  struct Memory {  // nvmlMemory_t
    unsigned long long total, free, used;
  };
  struct Utilization {  // nvmlUtilization_t, in percent
    unsigned gpu, memory;
  };
  struct PciInfo {  // nvmlPciInfo_t
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
  };
  struct Process {  // nvmlProcessInfo_v2_t
    unsigned pid;
    unsigned long long used_bytes;  // ~0 stands for unknown.
    unsigned gpu_instance, compute_instance;
  };
  using Gpu = void*;  // nvmlDevice_t

  int (*Init)();
  int (*Shutdown)();
  const char* (*ErrorString)(int result);
  int (*DeviceGetCount)(unsigned* count);
  int (*DeviceGetHandleByIndex)(unsigned index, Gpu* gpu);
  int (*DeviceGetName)(Gpu gpu, char* name, unsigned length);
  int (*DeviceGetPciInfo)(Gpu gpu, PciInfo* info);
  int (*DeviceGetMemoryInfo)(Gpu gpu, Memory* memory);
  int (*DeviceGetUtilizationRates)(Gpu gpu, Utilization* utilization);
  // The only sensor is number 0.
  int (*DeviceGetTemperature)(Gpu gpu, int sensor, unsigned* degrees);
  // On entry, *count is the capacity of `processes`; on return, it is the
  // number of processes.
  int (*DeviceGetComputeRunningProcesses)(Gpu gpu, unsigned* count,
                                          Process* processes);
};

// Returns the functions of NVML. The first call loads the library for the
// lifetime of the process. Thread-safe. Returns FailedPrecondition if there is
// no driver.
absl::StatusOr<const Nvml*> LoadNvml();

// Returns all GPUs of the machine, including the GPUs that CUDA_VISIBLE_DEVICES
// hides. Omits values that a GPU does not report. Returns FailedPrecondition,
// with NVML's reason, if NVML cannot list the GPUs.
absl::StatusOr<std::vector<GpuReport>> ReadGpus(const Nvml& nvml);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NVML_H_
