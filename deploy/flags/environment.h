// Reads the process's place in the job from the environment variables of its
// launcher (torchrun, Slurm, Open MPI, Kubernetes, ...).
#ifndef TRIBUTARY_DEPLOY_FLAGS_ENVIRONMENT_H_
#define TRIBUTARY_DEPLOY_FLAGS_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tributary {

// Returns the value of an environment variable; nullopt if it is not set. The
// functions that read variables treat an empty value as not set, as scripts of
// most launchers do.
using Environment =
    std::function<absl::optional<std::string>(const std::string& name)>;

// Returns the environment of this process.
Environment ProcessEnvironment();

// The default port of the coordinator, which is also torchrun's default.
inline constexpr int kDefaultPort = 29400;

// A number from a variable of the environment, and the variable's name.
struct EnvironmentNumber {
  int64_t value = 0;
  std::string variable;
};

// A value of a variable of the environment, and the variable's name.
struct EnvironmentText {
  std::string value;
  std::string variable;
};

// The place of this process in the job, as its launcher (torchrun, Slurm, Open
// MPI or Kubernetes) states it. Ranks and sizes count workers.
struct LauncherEnvironment {
  absl::optional<EnvironmentNumber> rank;
  absl::optional<EnvironmentNumber> world_size;
  absl::optional<EnvironmentNumber> local_rank;
  // Number of workers on this machine, which share its cores.
  absl::optional<EnvironmentNumber> local_world_size;
  // Number of threads for this worker. Set only by a launcher that starts one
  // worker on each machine.
  absl::optional<EnvironmentNumber> threads;
  // Index of this pod in its indexed Kubernetes Job.
  absl::optional<EnvironmentNumber> completion_index;
  absl::optional<EnvironmentText> address;
  absl::optional<EnvironmentNumber> port;

  // Returns the address of the coordinator as host:port. Uses 127.0.0.1 for the
  // host, and kDefaultPort for the port, where the environment does not set it.
  std::string Coordinator() const;
};

// Reads torchrun's variables RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT. If RANK, WORLD_SIZE, LOCAL_RANK or
// LOCAL_WORLD_SIZE is not set, reads Slurm's variable of the same meaning
// instead, or else Open MPI's. Ignores Slurm's variables in an interactive
// Slurm shell, which has the variables of a job but is not one of the job's
// tasks.
//
// For a value that is still missing, reads the variables PET_*, which Kubeflow
// Trainer sets for torchrun on each node of a TrainJob. One worker takes the
// place of torchrun on each node. PET_NNODES is the number of workers; for
// "MIN:MAX", the number is MIN. PET_NODE_RANK is the rank. PET_NPROC_PER_NODE
// is the number of threads if it is a number. PET_MASTER_ADDR and
// PET_MASTER_PORT are the address. JOB_COMPLETION_INDEX, which sets
// completion_index, is also the rank if no other variable sets it.
//
// Returns InvalidArgument, naming the variable, for a value that is not a
// number or is out of range, and for a rank that is not below its world size. A
// rank from PET_NODE_RANK or JOB_COMPLETION_INDEX is not compared with the
// world size, because it counts pods, and some pods may be servers.
absl::StatusOr<LauncherEnvironment> ReadLauncherEnvironment(
    const Environment& environment);

// Returns "host:port", with brackets around an IPv6 address.
std::string JoinHostPort(absl::string_view host, int64_t port);

struct HostPort {
  std::string host;  // Host name or address, without brackets.
  int port = 0;
};

// Parses `text`. Returns InvalidArgument unless `text` is "host:port" with a
// port in [0, 65535], and brackets around an IPv6 address.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_ENVIRONMENT_H_
