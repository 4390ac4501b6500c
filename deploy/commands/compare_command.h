// `tributary compare`: trains one job with every exchange and compares them.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_COMPARE_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_COMPARE_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// `arguments` are those after "compare". Returns the exit code.
int RunCompareCommand(const std::vector<std::string>& arguments,
                      const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_COMPARE_COMMAND_H_
