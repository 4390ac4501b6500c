// What server and worker processes share at their start and end.
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
  // What the launcher reads, see LogOptions::warning_fd; for its children only.
  int64_t warning_fd = -1;
};

// --log-format and --log-level.
void AddLogFlags(CommandLine* line, LogFlags* flags);

// The same for processes that a launcher may start.
void AddChildLogFlags(CommandLine* line, LogFlags* flags);

// A log on stderr for the process with that role ("server", "worker") and rank
// (-1: not known yet).
absl::StatusOr<std::unique_ptr<Logger>> StartProcessLog(const LogFlags& flags,
                                                        const std::string& role,
                                                        int rank);

// Says how the process ended and returns its exit code: kExitPreempted if it
// was stopped by SIGTERM, or without a signal (`signal` is 0) with the whole
// job; that of another `signal` if one stopped it.
int FinishProcess(Logger* log, const absl::Status& status, int signal);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_PROCESS_LOG_H_
