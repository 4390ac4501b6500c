// What GPUs are doing, and for whom: by NVIDIA's management library (NVML), a
// part of the driver that is loaded when it is first asked.
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
  // None where the driver does not tell: in containers, mostly.
  std::optional<int64_t> memory_bytes;
};

struct GpuReport {
  std::string name;
  std::string bus_id;  // "0000:3b:00.0", in lower case.
  int64_t memory_bytes = 0;
  int64_t used_bytes = 0;
  // Part of the last second or so in which it computed, in percent; none where
  // the driver does not tell.
  std::optional<int> utilization_percent;
  std::vector<GpuProcess> processes;  // That compute on it.
};

// The functions of NVML that are used, with the types of its header, which
// comes with the CUDA toolkit alone: all return 0 for success. See
// https://docs.nvidia.com/deploy/nvml-api.
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
    unsigned long long used_bytes;  // ~0: unknown
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
  // *count: room in `processes`, then how many there are.
  int (*DeviceGetComputeRunningProcesses)(Gpu gpu, unsigned* count,
                                          Process* processes);
};

// Loaded by the first call, for the process's lifetime; safe from any thread.
// FailedPrecondition where there is no driver.
absl::StatusOr<const Nvml*> LoadNvml();

// All GPUs of the machine, whether or not CUDA_VISIBLE_DEVICES hides them. What
// a GPU does not tell is left out; FailedPrecondition, with NVML's reason,
// where it tells nothing.
absl::StatusOr<std::vector<GpuReport>> ReadGpus(const Nvml& nvml);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_LIBRARIES_NVML_H_
