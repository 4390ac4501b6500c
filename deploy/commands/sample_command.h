// `tributary sample`: generates text with a trained model.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_SAMPLE_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_SAMPLE_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// Returns the exit code.
int RunSampleCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_SAMPLE_COMMAND_H_
