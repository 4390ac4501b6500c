// `tributary devices`: what this machine can compute on, and who uses it.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_DEVICES_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_DEVICES_COMMAND_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/flags/environment.h"
#include "worker/device/cuda/libraries/nvml.h"

namespace tributary {

struct MachineDevices {
  int cores = 1;  // That this process may use.
  std::optional<int64_t> free_memory_bytes;
  // Why CUDA computes on none of the GPUs; OK: it does on those of
  // `cuda_bus_ids`, by their number.
  absl::Status cuda;
  std::vector<std::string> cuda_bus_ids;
  // As the driver tells; empty where it does not.
  std::vector<GpuReport> gpus;
  // Name of a process; empty: unknown.
  std::function<std::string(int64_t pid)> process_name;
};

// A line for the CPU and each GPU, under its name for --device ("-" where CUDA
// does not see it), and one for each process on a GPU.
std::string FormatDevices(const MachineDevices& devices);

int RunDevicesCommand(const std::vector<std::string>& arguments,
                      const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_DEVICES_COMMAND_H_
