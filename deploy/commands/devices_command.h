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
#include "deploy/commands/machine_load.h"
#include "deploy/flags/environment.h"
#include "worker/device/cuda/libraries/nvml.h"

namespace tributary {

struct MachineDevices {
  int cores = 1;  // Number of cores that this process may use.
  // Free memory of the host; nullopt if unknown.
  std::optional<int64_t> free_memory_bytes;
  // What the machine and the processes of jobs do.
  MachineReading load;
  // OK if CUDA can use at least one GPU; otherwise an error that states why it
  // cannot.
  absl::Status cuda;
  // The PCI addresses of the GPUs that CUDA can use; element N is the address
  // of cuda:N.
  std::vector<std::string> cuda_bus_ids;
  // The reports of the driver (NVML), one for each GPU; empty if there is no
  // driver.
  std::vector<GpuReport> gpus;
  // Returns the name of a process, or an empty string if it is unknown.
  std::function<std::string(int64_t pid)> process_name;
};

// Formats one line for the CPU, one for each process of a job, one for each
// GPU, and one for each process on a GPU. The line of a device begins with its
// name for --device, or with "-" for a GPU that CUDA does not list.
std::string FormatDevices(const MachineDevices& devices);

// Runs `tributary devices` with the arguments after the command's name. Returns
// the exit code.
int RunDevicesCommand(const std::vector<std::string>& arguments,
                      const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_DEVICES_COMMAND_H_
