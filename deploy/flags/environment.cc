#include "deploy/flags/environment.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

constexpr int64_t kMaxRank = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxThreads = 1024;

absl::optional<std::string> Lookup(const Environment& environment,
                                   const std::string& name) {
  absl::optional<std::string> value = environment(name);
  if (value.has_value() && value->empty()) return absl::nullopt;
  return value;
}

// Returns the first of `names` that is set, as a number in [min, max].
absl::StatusOr<absl::optional<EnvironmentNumber>> ReadNumber(
    const Environment& environment, std::initializer_list<const char*> names,
    int64_t min, int64_t max) {
  for (const char* name : names) {
    const absl::optional<std::string> text = Lookup(environment, name);
    if (!text.has_value()) continue;
    EnvironmentNumber number;
    number.variable = name;
    if (!absl::SimpleAtoi(*text, &number.value) || number.value < min ||
        number.value > max) {
      return absl::InvalidArgumentError(
          absl::StrCat("environment variable ", name, " is '", *text,
                       "', expected a whole number from ", min, " to ", max,
                       "; correct or unset it, or give the value as a flag"));
    }
    return absl::optional<EnvironmentNumber>(number);
  }
  return absl::optional<EnvironmentNumber>();
}

// Returns `environment` with only the variables PET_* whose values are usual
// numbers: of PET_NNODES "MIN:MAX", which torchrun permits, only MIN remains. A
// PET_NPROC_PER_NODE that is a word (auto, cpu, gpu) counts as not set.
Environment WithPlainPet(const Environment& environment) {
  return [&environment](const std::string& name) {
    absl::optional<std::string> value = Lookup(environment, name);
    if (!value.has_value()) return value;
    if (name == "PET_NNODES")
      value->erase(std::min(value->find(':'), value->size()));
    if (name == "PET_NPROC_PER_NODE" && !absl::ascii_isdigit((*value)[0])) {
      value.reset();
    }
    return value;
  };
}

// Completes what `found` lacks from the variables PET_* and
// JOB_COMPLETION_INDEX.
absl::Status AddKubernetes(const Environment& real_environment,
                           LauncherEnvironment* found) {
  const Environment environment = WithPlainPet(real_environment);
  TRIBUTARY_ASSIGN_OR_RETURN(
      found->completion_index,
      ReadNumber(environment, {"JOB_COMPLETION_INDEX"}, 0, kMaxRank));
  if (!found->local_world_size.has_value()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        found->threads,
        ReadNumber(environment, {"PET_NPROC_PER_NODE"}, 1, kMaxThreads));
  }
  if (!found->world_size.has_value()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        found->world_size,
        ReadNumber(environment, {"PET_NNODES"}, 1, kMaxRank));
  }
  if (!found->port.has_value()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        found->port, ReadNumber(environment, {"PET_MASTER_PORT"}, 1, 65535));
  }
  if (!found->address.has_value()) {
    if (const auto address = Lookup(environment, "PET_MASTER_ADDR")) {
      found->address = EnvironmentText{*address, "PET_MASTER_ADDR"};
    }
  }
  if (found->rank.has_value()) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(
      found->rank,
      ReadNumber(environment, {"PET_NODE_RANK", "JOB_COMPLETION_INDEX"}, 0,
                 kMaxRank));
  return absl::OkStatus();
}

absl::Status CheckRank(const LauncherEnvironment& found) {
  if (!found.rank.has_value() || !found.world_size.has_value() ||
      found.rank->value < found.world_size->value) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "environment variable ", found.rank->variable, " is ", found.rank->value,
      ", expected less than ", found.world_size->variable, " (",
      found.world_size->value, "); ranks count from 0"));
}

// An interactive shell in a Slurm allocation (salloc, srun --pty bash) is a
// single process, although its variables describe all tasks. PyTorch Lightning
// checks for the same job names.
bool IsInteractiveSlurm(const Environment& environment) {
  const std::string job =
      Lookup(environment, "SLURM_JOB_NAME").value_or(std::string());
  return job == "bash" || job == "sh" || job == "interactive";
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> absl::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return absl::nullopt;
    return std::string(value);
  };
}

std::string LauncherEnvironment::Coordinator() const {
  return JoinHostPort(address.has_value() ? address->value : "127.0.0.1",
                      port.has_value() ? port->value : kDefaultPort);
}

absl::StatusOr<LauncherEnvironment> ReadLauncherEnvironment(
    const Environment& real_environment) {
  const bool skip_slurm = IsInteractiveSlurm(real_environment);
  const Environment environment = [&](const std::string& name) {
    if (skip_slurm && absl::StartsWith(name, "SLURM_")) {
      return absl::optional<std::string>();
    }
    return real_environment(name);
  };
  LauncherEnvironment found;
  TRIBUTARY_ASSIGN_OR_RETURN(
      found.rank,
      ReadNumber(environment, {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"},
                 0, kMaxRank));
  TRIBUTARY_ASSIGN_OR_RETURN(
      found.world_size,
      ReadNumber(environment,
                 {"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"}, 1,
                 kMaxRank));
  TRIBUTARY_ASSIGN_OR_RETURN(
      found.local_rank,
      ReadNumber(environment,
                 {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"},
                 0, kMaxRank));
  TRIBUTARY_ASSIGN_OR_RETURN(
      found.local_world_size,
      ReadNumber(environment,
                 {"LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE",
                  "OMPI_COMM_WORLD_LOCAL_SIZE"},
                 1, kMaxRank));
  TRIBUTARY_ASSIGN_OR_RETURN(
      found.port, ReadNumber(environment, {"MASTER_PORT"}, 1, 65535));
  const absl::optional<std::string> address =
      Lookup(environment, "MASTER_ADDR");
  if (address.has_value()) {
    found.address = EnvironmentText{*address, "MASTER_ADDR"};
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckRank(found));
  TRIBUTARY_RETURN_IF_ERROR(AddKubernetes(environment, &found));
  return found;
}

std::string JoinHostPort(absl::string_view host, int64_t port) {
  const bool bare_ipv6 =
      absl::StrContains(host, ":") && !absl::StartsWith(host, "[");
  return bare_ipv6 ? absl::StrCat("[", host, "]:", port)
                   : absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError(
      absl::StrCat("'", text,
                   "' is not an address; write host:port, for example "
                   "127.0.0.1:29400"));
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return malformed;
  absl::string_view host = text.substr(0, colon);
  HostPort result;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &result.port) ||
      result.port < 0 || result.port > 65535) {
    return malformed;
  }
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return malformed;
    host = host.substr(1, host.size() - 2);
  } else if (absl::StrContains(host, ":")) {
    return malformed;
  }
  result.host = std::string(host);
  return result;
}

}  // namespace tributary
