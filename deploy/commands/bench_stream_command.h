// `tributary bench stream`: one process of the measurement in stream_limit.h.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_BENCH_STREAM_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_BENCH_STREAM_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// `arguments` are those after "stream". Returns the exit code.
int RunBenchStreamCommand(const std::vector<std::string>& arguments,
                          const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_BENCH_STREAM_COMMAND_H_
