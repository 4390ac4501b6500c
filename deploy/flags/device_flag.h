// The --device flag, which selects the device that a process computes on.
#ifndef TRIBUTARY_DEPLOY_FLAGS_DEVICE_FLAG_H_
#define TRIBUTARY_DEPLOY_FLAGS_DEVICE_FLAG_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/flags/command_line.h"
#include "proto/job.pb.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {

// Default number of compute threads of a worker on a GPU. While one thread
// waits for copies or for the host, the GPU runs the work of the other thread.
inline constexpr int64_t kThreadsPerGpu = 2;

// Declares --device, which selects the CPU or a GPU. Its default value is
// `standard`.
void AddDeviceFlag(CommandLine* line, const std::string& standard,
                   std::string* value);

// Declares --`flag`, which selects the device of servers and has the same
// values as --device. Its default is the CPU, because workers benefit more from
// the GPUs.
void AddServerDeviceFlag(CommandLine* line, const std::string& flag,
                         std::string* value);

// The GPUs among which ChooseDevice selects.
struct Gpus {
  // Returns the number of GPUs, or an error if there is none.
  std::function<absl::StatusOr<int>()> count;
  // Returns OK if GPU number `ordinal` can be used, and otherwise the reason
  // why it cannot.
  std::function<absl::Status(int ordinal)> check;
};

// Returns the GPUs of this machine. Gpus::check initializes a GPU, so this
// function is for processes that compute on the GPU.
Gpus MachineGpus();
// Returns the GPUs of this machine without initializing any, assuming that all
// of them work. Used by launcher processes, because a process that initializes
// a GPU occupies some of the GPU's memory.
Gpus ListedGpus();

// Returns the device that `value` selects. `value` is the value of the flag
// `flag`; the result is never kAuto. For "auto" and "cuda", selects one of the
// GPUs by `place`, the index of this process among the job's processes on this
// machine. For "auto", selects the CPU if Gpus::count returns an error, as on a
// machine without a GPU, or if Gpus::check returns an error for the selected
// GPU, for example because its memory is full. After an error of Gpus::check,
// `*remark` receives one line that states the error; otherwise it is empty.
//
// Returns InvalidArgument for an invalid value. If the selected GPU cannot be
// used, and the CPU is not selected instead, returns the error of the GPU, with
// the remedy.
absl::StatusOr<DeviceName> ChooseDevice(const std::string& value, int64_t place,
                                        const Gpus& gpus, std::string* remark,
                                        const std::string& flag = "device");

// Does the same as ChooseDevice, for a server of `job`. If the job uses
// exchange.all_reduce, its server does not compute: this function then selects
// the CPU for "auto", and returns InvalidArgument for a GPU.
absl::StatusOr<DeviceName> ChooseServerDevice(const JobSpec& job,
                                              const std::string& value,
                                              int64_t place, const Gpus& gpus,
                                              std::string* remark,
                                              const std::string& flag);

// Returns the value of --device for all workers, or for all servers, so that
// either all of them use the CPU or none does. `flag` is the value of --device
// of this process, and `chosen` is the device chosen for the first worker or
// server. Returns "cpu" if `chosen` is the CPU, and `flag` otherwise.
std::string DeviceOfAll(const std::string& flag, const DeviceName& chosen);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_DEVICE_FLAG_H_
