// `tributary devices`: lists the devices of this machine and the processes that
// use them.
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
  int cores = 1;  // Number of cores that this process may use.
  std::optional<int64_t> free_memory_bytes;
  // OK if CUDA can use the GPUs in `cuda_bus_ids`, which is indexed by their
  // number; otherwise the reason why it can use none.
  absl::Status cuda;
  std::vector<std::string> cuda_bus_ids;
  // The reports of the GPUs' driver; empty if the driver provides none.
  std::vector<GpuReport> gpus;
  // Returns the name of a process, or an empty string if it is unknown.
  std::function<std::string(int64_t pid)> process_name;
};

// Formats one line for the CPU and for each GPU, with its name for --device
// ("-" if CUDA does not list it), and one for each process on a GPU.
std::string FormatDevices(const MachineDevices& devices);

int RunDevicesCommand(const std::vector<std::string>& arguments,
                      const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_DEVICES_COMMAND_H_
