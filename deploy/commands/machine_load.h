// What this machine and the processes of Tributary on it do.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_MACHINE_LOAD_H_
#define TRIBUTARY_DEPLOY_COMMANDS_MACHINE_LOAD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace tributary {

// A program `tributary`, or a worker of a job that is another program.
struct JobProcess {
  int64_t pid = 0;
  std::string name;  // The program and its command, such as "tributary worker".
  int64_t memory_bytes = 0;        // Resident.
  std::optional<int> cpu_percent;  // Of one core, since the last reading.
};

struct MachineReading {
  // The percentage of the time since the last reading in which the machine's
  // cores were busy; nullopt in the first reading.
  std::optional<int> busy_percent;
  std::optional<int> degrees;         // Celsius, of the hottest sensor.
  std::vector<JobProcess> processes;  // By process id, without this one.
};

// Reads the files of Linux under /proc and /sys. Not thread-safe.
class MachineLoad {
 public:
  // `root` is the folder of `proc` and `sys`.
  explicit MachineLoad(std::string root = "") : root_(std::move(root)) {}

  // `now` is the time of the reading, of MonotonicNow.
  MachineReading Read(absl::Time now);

 private:
  std::optional<JobProcess> ReadProcess(int64_t pid, absl::Duration since);

  const std::string root_;
  absl::Time last_ = absl::InfinitePast();
  // Ticks of all cores, and of those the idle ones; by process id.
  int64_t total_ticks_ = 0;
  int64_t idle_ticks_ = 0;
  std::map<int64_t, int64_t> process_ticks_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_MACHINE_LOAD_H_
