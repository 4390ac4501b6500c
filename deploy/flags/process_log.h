// Logging and exit of server and worker processes.
#ifndef TRIBUTARY_DEPLOY_FLAGS_PROCESS_LOG_H_
#define TRIBUTARY_DEPLOY_FLAGS_PROCESS_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/logger.h"
#include "deploy/flags/command_line.h"

namespace tributary {

struct LogFlags {
  std::string format = "text";
  std::string level = "info";
  // The descriptor to which the process writes warnings for the launcher that
  // started it; see LogOptions::warning_fd. -1 if the process was not started
  // by a launcher.
  int64_t warning_fd = -1;
  // 1 if the process obeys signals only of the launcher that started it; see
  // SignalQueue. Otherwise 0.
  int64_t parent_signals = 0;
};

// Declares --log-format and --log-level, the format and the lowest level of the
// lines that a process logs.
void AddLogFlags(CommandLine* line, LogFlags* flags);

// Like AddLogFlags, but also declares --warning-fd and --parent-signals, with
// which a launcher starts its processes.
void AddChildLogFlags(CommandLine* line, LogFlags* flags);

// Creates a log on stderr for a process with this role ("server" or "worker")
// and rank (-1 if it is not known yet). Returns InvalidArgument for an unknown
// level.
absl::StatusOr<std::unique_ptr<Logger>> StartProcessLog(const LogFlags& flags,
                                                        const std::string& role,
                                                        int rank);

// Writes all waiting log lines, says how the process ended, and returns its
// exit code. `signal` is the signal that stopped the process, or 0 if there was
// none. If `status` is not Cancelled, the exit code is ExitCodeOf(status). If
// `status` is Cancelled, the exit code is ExitCodeOfStop(signal) if a signal
// stopped the process; without a signal, the whole job was stopped, and the
// exit code is kExitPreempted.
int FinishProcess(Logger* log, const absl::Status& status, int signal);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_PROCESS_LOG_H_
