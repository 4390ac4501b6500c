// `tributary status`: shows the status of a job to users, scripts and health
// checks of containers.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_STATUS_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_STATUS_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/security.h"
#include "deploy/flags/environment.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Queries the coordinator at `address` (host:port) once, blocks until it
// answers, and returns the answer. Returns Unauthenticated or PermissionDenied
// if the coordinator refuses the credentials, FailedPrecondition if TLS
// settings prevent a connection, and Unavailable, with the remedy, if the
// coordinator does not answer within `timeout` for a different reason.
absl::StatusOr<StatusReply> AskStatus(const std::string& address,
                                      const Security& security,
                                      absl::Duration timeout);

// Formats a table of the processes of the job. Each line is preceded, not
// followed, by a newline. Returns an empty string if there are no processes.
std::string FormatProcesses(const StatusReply& status);

// Returns OK if `status` shows that workers may join; FailedPrecondition, with
// the reason, if the job is ending, has ended or has failed.
absl::Status CheckReady(const StatusReply& status);

// Runs the command with the arguments after its name. Returns the exit code.
int RunStatusCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_STATUS_COMMAND_H_
