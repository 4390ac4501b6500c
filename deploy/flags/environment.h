// What the program that started us (torchrun, Slurm, Open MPI, ...) says in
// environment variables about this process's place in the job.
#ifndef TRIBUTARY_DEPLOY_FLAGS_ENVIRONMENT_H_
#define TRIBUTARY_DEPLOY_FLAGS_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tributary {

// The value of an environment variable; nullopt if it is not set. An empty
// value counts as not set, as in most launchers' scripts.
using Environment =
    std::function<absl::optional<std::string>(const std::string& name)>;

// That of this process.
Environment ProcessEnvironment();

// Port of the coordinator where nobody names one: that of torchrun.
inline constexpr int kDefaultPort = 29400;

// A value and the variable that it came from.
struct EnvironmentNumber {
  int64_t value = 0;
  std::string variable;
};

struct EnvironmentText {
  std::string value;
  std::string variable;
};

// Ranks count workers.
struct LauncherEnvironment {
  absl::optional<EnvironmentNumber> rank;
  absl::optional<EnvironmentNumber> world_size;
  absl::optional<EnvironmentNumber> local_rank;
  // Workers on this machine, to share its cores.
  absl::optional<EnvironmentNumber> local_world_size;
  absl::optional<EnvironmentText> address;
  absl::optional<EnvironmentNumber> port;

  // host:port of the coordinator: what the environment names, with 127.0.0.1
  // and kDefaultPort for what it does not.
  std::string Coordinator() const;
};

// Reads, in this order of preference, torchrun's RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, then Slurm's and Open MPI's.
// Slurm's are passed over in an interactive shell of Slurm, which has the
// variables of a job but is not one of its tasks. InvalidArgument, naming the
// variable, for what is not a number, out of range, or a rank that is not below
// its world size.
absl::StatusOr<LauncherEnvironment> ReadLauncherEnvironment(
    const Environment& environment);

// "host:port", with brackets where the host is an IPv6 address.
std::string JoinHostPort(absl::string_view host, int64_t port);

struct HostPort {
  std::string host;  // Without brackets.
  int port = 0;
};

// InvalidArgument unless `text` is "host:port" with a port in [0, 65535].
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_ENVIRONMENT_H_
