// `tributary bench exchange`: measures the exchange without computation.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_BENCH_EXCHANGE_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_BENCH_EXCHANGE_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// `arguments` are those after "exchange". Returns the exit code.
int RunBenchExchangeCommand(const std::vector<std::string>& arguments,
                            const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_BENCH_EXCHANGE_COMMAND_H_
