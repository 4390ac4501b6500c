// `tributary status`: shows the status of a job to users, scripts and health
// checks of containers.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_STATUS_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_STATUS_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/flags/environment.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Returns OK if `status` shows that workers may join the job;
// FailedPrecondition, with the reason, if the job is ending, has ended or has
// failed.
absl::Status CheckReady(const StatusReply& status);

// Runs `tributary status` with the arguments after the command's name. Returns
// the exit code.
int RunStatusCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_STATUS_COMMAND_H_
