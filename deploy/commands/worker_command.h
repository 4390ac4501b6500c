// `tributary worker`: runs one worker.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_WORKER_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_WORKER_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// Returns the exit code.
int RunWorkerCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_WORKER_COMMAND_H_
