#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "deploy/flags/environment.h"
#include "tributary/worker.h"

namespace tributary {
namespace {

// Replaces `*value` by the variable, if it is set.
void Read(const Environment& environment, const std::string& variable,
          std::string* value) {
  const absl::optional<std::string> text = environment(variable);
  if (text.has_value() && !text->empty()) *value = *text;
}

absl::Status Read(const Environment& environment, const std::string& variable,
                  int min, int max, int* value) {
  std::string text = absl::StrCat(*value);
  Read(environment, variable, &text);
  if (absl::SimpleAtoi(text, value) && *value >= min && *value <= max) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("environment variable ", variable, " is '", text,
                   "', expected a whole number from ", min, " to ", max));
}

}  // namespace

absl::StatusOr<Worker::Options> Worker::Options::FromEnvironment() {
  const Environment environment = ProcessEnvironment();
  TRIBUTARY_ASSIGN_OR_RETURN(const LauncherEnvironment launcher,
                             ReadLauncherEnvironment(environment));
  Options options;
  options.coordinator = launcher.Coordinator();
  Read(environment, "TRIBUTARY_COORDINATOR", &options.coordinator);
  if (!absl::StrContains(options.coordinator, ":")) {
    options.coordinator = JoinHostPort(options.coordinator, kDefaultPort);
  }
  if (launcher.rank.has_value()) {
    options.rank = static_cast<int>(launcher.rank->value);
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Read(environment, "TRIBUTARY_RANK", -1, 65535, &options.rank));
  Read(environment, "TRIBUTARY_TLS_DIR", &options.tls_dir);
  Read(environment, "TRIBUTARY_TOKEN_FILE", &options.token_file);
  Read(environment, "TRIBUTARY_ADVERTISE", &options.advertise);
  std::string insecure = "false";
  Read(environment, "TRIBUTARY_INSECURE_NETWORK", &insecure);
  if (!absl::SimpleAtob(insecure, &options.insecure_network)) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment variable TRIBUTARY_INSECURE_NETWORK is '",
                     insecure, "', expected true or false"));
  }
  Read(environment, "TRIBUTARY_LOG_LEVEL", &options.log_level);
  Read(environment, "TRIBUTARY_LOG_FORMAT", &options.log_format);
  TRIBUTARY_RETURN_IF_ERROR(Read(environment, "TRIBUTARY_WARNING_FD", -1,
                                 1 << 20, &options.warning_fd));
  return options;
}

}  // namespace tributary
