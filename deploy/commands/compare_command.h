// `tributary compare`: one job under every exchange, side by side.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_COMPARE_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_COMPARE_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// `arguments` are those behind "compare". Returns the exit code.
int RunCompareCommand(const std::vector<std::string>& arguments,
                      const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_COMPARE_COMMAND_H_
