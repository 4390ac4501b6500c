// `tributary train`: runs a whole job on this machine.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_TRAIN_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_TRAIN_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// Returns the exit code.
int RunTrainCommand(const std::vector<std::string>& arguments,
                    const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_TRAIN_COMMAND_H_
