// `tributary status`: what a job is doing, for people, scripts and the health
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

// Asks the coordinator at host:port once, and waits for the answer.
// Unavailable, saying what to do, if there is none within `timeout`.
absl::StatusOr<StatusReply> AskStatus(const std::string& address,
                                      const Security& security,
                                      absl::Duration timeout);

// A table of the job's processes, each line after a newline; empty if there are
// none.
std::string FormatProcesses(const StatusReply& status);

// OK while workers may join; FailedPrecondition, with the reason, when the job
// is over.
absl::Status CheckReady(const StatusReply& status);

// Returns the exit code.
int RunStatusCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_STATUS_COMMAND_H_
