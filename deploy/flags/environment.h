// Reads the process's place in the job from the environment variables of its
// launcher (torchrun, Slurm, Open MPI, ...).
#ifndef TRIBUTARY_DEPLOY_FLAGS_ENVIRONMENT_H_
#define TRIBUTARY_DEPLOY_FLAGS_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tributary {

// Returns the value of an environment variable; nullopt if it is not set. An
// empty value counts as not set, as in most launchers' scripts.
using Environment =
    std::function<absl::optional<std::string>(const std::string& name)>;

// Returns the environment of this process.
Environment ProcessEnvironment();

// The default port of the coordinator, which is also torchrun's default.
inline constexpr int kDefaultPort = 29400;

// A number, and the name of the variable from which it was read.
struct EnvironmentNumber {
  int64_t value = 0;
  std::string variable;
};

// A text, and the name of the variable from which it was read.
struct EnvironmentText {
  std::string value;
  std::string variable;
};

// The place of this process in the job, as its launcher states it. Ranks and
// sizes count workers.
struct LauncherEnvironment {
  absl::optional<EnvironmentNumber> rank;
  absl::optional<EnvironmentNumber> world_size;
  absl::optional<EnvironmentNumber> local_rank;
  // Number of workers on this machine, which share its cores.
  absl::optional<EnvironmentNumber> local_world_size;
  absl::optional<EnvironmentText> address;
  absl::optional<EnvironmentNumber> port;

  // Returns host:port of the coordinator, with 127.0.0.1 and kDefaultPort for
  // the parts that the environment does not set.
  std::string Coordinator() const;
};

// Reads, in this order of precedence, torchrun's RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, then Slurm's and Open MPI's
// variables. Ignores Slurm's variables in an interactive Slurm shell, which has
// the variables of a job but is not one of its tasks. Returns InvalidArgument,
// naming the variable, for a value that is not a number or out of range, and
// for a rank that is not below its world size.
absl::StatusOr<LauncherEnvironment> ReadLauncherEnvironment(
    const Environment& environment);

// Returns "host:port", with brackets around an IPv6 address.
std::string JoinHostPort(absl::string_view host, int64_t port);

struct HostPort {
  std::string host;  // The host without brackets.
  int port = 0;
};

// Parses `text`. Returns InvalidArgument unless `text` is "host:port" with a
// port in [0, 65535].
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_ENVIRONMENT_H_
