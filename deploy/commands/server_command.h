// `tributary server`: one server.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_SERVER_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_SERVER_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// Threads of a server on a machine with so many cores, unless it is told
// otherwise.
int DefaultServerThreads(int cores);

// Returns the exit code.
int RunServerCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_SERVER_COMMAND_H_
