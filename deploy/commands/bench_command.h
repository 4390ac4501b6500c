// `tributary bench ...`: measures performance on this machine.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_BENCH_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_BENCH_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// `arguments` are those after "bench". Returns the exit code.
int RunBenchCommand(const std::vector<std::string>& arguments,
                    const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_BENCH_COMMAND_H_
