// --device: what a process computes on.
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

// Threads that feed a GPU, by default: while one waits for copies, or for the
// host, the other's work runs.
inline constexpr int64_t kThreadsPerGpu = 2;

void AddDeviceFlag(CommandLine* line, const std::string& standard,
                   std::string* value);

// The same of servers, under the name `flag`: the standard is the CPU, since
// workers need the GPUs more.
void AddServerDeviceFlag(CommandLine* line, const std::string& flag,
                         std::string* value);

// What the choice depends on.
struct Gpus {
  // How many there are, as CountCudaDevices.
  std::function<absl::StatusOr<int>()> count;
  // Whether number `ordinal` can be used, as CreateCudaDevice.
  std::function<absl::Status(int ordinal)> check;
};

// Those of this machine.
Gpus MachineGpus();
// The same for servers.
Gpus ServerGpus();
// Those of this machine, without using any: all that there are seem to work.
// For processes that start those that compute, since whoever uses a GPU keeps
// some of its memory.
Gpus ListedGpus();

// "auto" takes a GPU where there is one that works, else the CPU; `remark`, in
// one line, is then why none does, or empty where there is none at all. "auto"
// and "cuda" leave it to `place`, this process's number among those of the job
// on this machine, which of several. The kind is never kAuto. For a GPU that is
// asked for and cannot be used, the error says what to do. `flag`: where
// `value` is from.
absl::StatusOr<DeviceName> ChooseDevice(const std::string& value, int64_t place,
                                        const Gpus& gpus, std::string* remark,
                                        const std::string& flag = "device");

// The same for a server of `job`: InvalidArgument for a GPU in an all-reduce,
// which has nothing for it to do.
absl::StatusOr<DeviceName> ChooseServerDevice(const JobSpec& job,
                                              const std::string& value,
                                              int64_t place, const Gpus& gpus,
                                              std::string* remark,
                                              const std::string& flag);

// The --device of workers, or of servers, where `flag` is that of this process
// and `chosen` the first one's: all of them are on the CPU, or none.
std::string DeviceOfAll(const std::string& flag, const DeviceName& chosen);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_DEVICE_FLAG_H_
