// Determines, from the flags of `tributary train`, the job to train and the
// machines and processes to use.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_TRAIN_PLAN_H_
#define TRIBUTARY_DEPLOY_COMMANDS_TRAIN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/job_source.h"
#include "deploy/launch/in_process/in_process_launch.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/slurm/allocation.h"
#include "deploy/launch/slurm/slurm_training.h"
#include "worker/device/factory/device_factory.h"
#include "worker/training/training_sources.h"

namespace tributary {

// The maximum number of workers that `tributary train` starts.
inline constexpr int64_t kMostTrainWorkers = 1024;

// The values of the flags of `tributary train`. An empty string, or 0 in
// `servers`, `threads` or `log_every`, means that the flag is not set.
struct TrainFlags {
  // Holds the values of the flags that have the same names as its fields.
  JobLaunch launch;
  JobSource source;
  std::string workers;
  int64_t spares = 0;
  int64_t servers = 0;  // 0: not set.
  int64_t threads = 0;  // 0: not set.
  std::string device;
  std::string server_device;
  bool in_process = false;
  std::string devices;
  bool fit = false;
  int64_t log_every = 0;
  std::string trace_steps;
  std::string output;
  bool overwrite = false;
  bool quiet = false;
  bool print_config = false;
  SlurmFlags slurm;
};

// The job that `tributary train` trains, and where: in a Slurm allocation or,
// if `slurm` is nullopt, on this machine: in this process if `in_process` is
// set.
struct TrainPlan {
  JobLaunch launch;
  DeviceName device;  // Device of the first worker.
  absl::optional<SlurmTraining> slurm;
  absl::optional<InProcessDevices> in_process;
};

// Reads the job and chooses the devices, the numbers of processes and threads,
// and the output folder. `flags` are the values that `line` has parsed; a
// resumed run uses the numbers of processes and the worker command with which
// it was started (see LaunchRecord), unless flags set others. Adds a line to
// `*remarks` for each choice that the user should know: if fewer workers are
// started than requested, and what --fit has changed. Returns the errors of the
// functions that read the job and the credentials, and InvalidArgument, naming
// the flags, if flags contradict each other.
absl::StatusOr<TrainPlan> MakeTrainPlan(
    const CommandLine& line, TrainFlags flags,
    const absl::optional<Allocation>& allocation,
    const TrainingSources& sources, std::vector<std::string>* remarks);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_TRAIN_PLAN_H_
