// Exit codes of the process, which scripts rely on: docs/fault-tolerance.md
// lists them.
#ifndef TRIBUTARY_DEPLOY_FLAGS_EXIT_CODE_H_
#define TRIBUTARY_DEPLOY_FLAGS_EXIT_CODE_H_

#include "absl/status/status.h"

namespace tributary {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
// Bad usage, a bad job file, or files that it names wrongly: starting again
// without a change is of no use.
inline constexpr int kExitUsage = 2;

// Stopped by SIGTERM, as schedulers do: start it again with --resume auto.
inline constexpr int kExitPreempted = 75;

// As a shell shows the end by a signal.
constexpr int ExitCodeOfSignal(int signal) { return 128 + signal; }

// kExitUsage for InvalidArgument and NotFound, kExitFailed for other errors.
int ExitCodeOf(const absl::Status& status);

// Writes "error: <message>", on one line, to stderr and returns the exit code.
int ReportError(const absl::Status& status);
int ReportError(const absl::Status& status, int exit_code);

// Writes out the standard streams and ends the process without running exit
// handlers or static destructors. The only way out of main: gRPC's threads live
// as long as the process (see KeepGrpc in common/transport/channel.cc), and one
// of them may be in a TLS handshake, to connect again, while OpenSSL's exit
// handler frees what the handshake uses. Waiting for gRPC to shut down would
// take up to ten seconds. Nothing is lost: files, logs and locks belong to
// objects that the commands destroy before they return.
[[noreturn]] void EndProcess(int exit_code);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_EXIT_CODE_H_
