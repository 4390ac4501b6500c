// `tributary bench step`: times one training step.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_BENCH_STEP_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_BENCH_STEP_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// `arguments` are those after "step". Returns the exit code.
int RunBenchStepCommand(const std::vector<std::string>& arguments,
                        const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_BENCH_STEP_COMMAND_H_
