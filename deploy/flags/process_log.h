// Logging and exit of server and worker processes.
#ifndef TRIBUTARY_DEPLOY_FLAGS_PROCESS_LOG_H_
#define TRIBUTARY_DEPLOY_FLAGS_PROCESS_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/log.h"
#include "deploy/flags/command_line.h"

namespace tributary {

struct LogFlags {
  std::string format = "text";
  std::string level = "info";
  // The descriptor from which the launcher reads warnings; see
  // LogOptions::warning_fd. Set only in child processes of the launcher; -1
  // otherwise.
  int64_t warning_fd = -1;
};

// Declares --log-format and --log-level.
void AddLogFlags(CommandLine* line, LogFlags* flags);

// Declares the same flags, and --warning-fd, for processes that a launcher may
// start.
void AddChildLogFlags(CommandLine* line, LogFlags* flags);

// Creates a log on stderr for a process with this role ("server", "worker") and
// rank (-1: not known yet).
absl::StatusOr<std::unique_ptr<Logger>> StartProcessLog(const LogFlags& flags,
                                                        const std::string& role,
                                                        int rank);

// Logs how the process ended and returns its exit code. `signal` is the signal
// that stopped the process; 0 if there was none. If `status` is Cancelled, the
// exit code is kExitPreempted for SIGTERM, and for 0, which means that the
// process was stopped together with the whole job; it is
// ExitCodeOfSignal(signal) for other signals. If `status` is not Cancelled, the
// exit code is that of `status`.
int FinishProcess(Logger* log, const absl::Status& status, int signal);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_PROCESS_LOG_H_
