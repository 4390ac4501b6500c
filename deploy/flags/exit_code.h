// Exit codes of the commands, and how they end the process.
#ifndef TRIBUTARY_DEPLOY_FLAGS_EXIT_CODE_H_
#define TRIBUTARY_DEPLOY_FLAGS_EXIT_CODE_H_

#include "absl/status/status.h"
#include "common/base/exit_code.h"

namespace tributary {

// Returns the exit code with which a shell reports that a signal ended a
// process.
constexpr int ExitCodeOfSignal(int signal) { return 128 + signal; }

// Returns the exit code of a process that has stopped gracefully because of a
// signal: kExitPreempted for SIGTERM, SIGUSR1 and SIGUSR2, which schedulers
// send, and ExitCodeOfSignal for all others.
int ExitCodeOfStop(int signal);

// Returns the exit code for the status of a command: kExitDone for OK,
// kExitUsage for InvalidArgument and NotFound, and kExitFailed for all other
// errors.
int ExitCodeOf(const absl::Status& status);

// Both functions write "error: <message>", with the message of `status`, as one
// line to stderr. They return `exit_code`, or ExitCodeOf(status) if there is no
// such argument.
int ReportError(const absl::Status& status);
int ReportError(const absl::Status& status, int exit_code);

// Like ReportError(status), for commands that read files which the user has
// named: a damaged file (DataLoss) has the exit code kExitUsage, too.
int ReportFileError(const absl::Status& status);

// Flushes the standard streams and ends the process without running exit
// handlers or static destructors. main must end this way, because gRPC's
// threads live as long as the process (see KeepGrpc in
// common/transport/channel.cc). One of them may be in a TLS handshake, whose
// data OpenSSL's exit handler would free. Shutting gRPC down instead can take
// up to ten seconds. Files, logs and locks are not affected, because the
// commands destroy the objects that own them before they return.
[[noreturn]] void EndProcess(int exit_code);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_EXIT_CODE_H_
