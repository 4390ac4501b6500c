// Remembers how a run was started, so that it can be started again.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LAUNCH_RECORD_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LAUNCH_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace tributary {

// How `tributary train` has started the processes of a run: the values of its
// flags. The environment is not part of it.
struct LaunchRecord {
  // Empty: `tributary worker`.
  std::string worker_command;
  // The absolute path of the folder in which worker_command was started.
  std::string working_folder;
  std::string workers;  // In the form of ParseWorkerCount.
  int64_t spares = 0;
  int64_t servers = 1;
};

// Writes launch.json in the folder of a run. Returns the system's error, with
// the path, if this fails.
absl::Status WriteLaunchRecord(const std::string& run,
                               const LaunchRecord& record);

// Returns the record in the folder of a run; nullopt if it has none, because a
// program has started it, or Slurm, or an older release. Returns the system's
// error, or DataLoss if the file is damaged, both with the path.
absl::StatusOr<absl::optional<LaunchRecord>> ReadLaunchRecord(
    const std::string& run);

// Returns NotFound, which says what to pass, if the record's working
// folder does not exist, for example because the run was copied to another
// machine.
absl::Status CheckWorkingFolder(const std::string& run,
                                const LaunchRecord& record);

// Returns `text` as one word of a command line for the shell: as it is if it
// contains only harmless characters, otherwise in quotes.
std::string ShellWord(const std::string& text);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LAUNCH_RECORD_H_
