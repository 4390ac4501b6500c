// `tributary plan`: predicts the step time of a job on a cluster.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_PLAN_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_PLAN_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// `arguments` are those after "plan". Returns the exit code.
int RunPlanCommand(const std::vector<std::string>& arguments,
                   const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_PLAN_COMMAND_H_
