// The command `tributary bench` and its subcommands. All of them return the
// exit code of the process.
#ifndef TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_COMMAND_H_
#define TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"
#include "worker/training/training_sources.h"

namespace tributary {

// `tributary bench ...`: measures performance on this machine.
int RunBenchCommand(const std::vector<std::string>& arguments,
                    const Environment& environment,
                    const TrainingSources& sources);

// `tributary bench exchange`: measures the exchange of gradients and weights
// between workers and servers, without computing a model.
int RunBenchExchangeCommand(const std::vector<std::string>& arguments,
                            const Environment& environment);

// `tributary bench step`: times one training step.
int RunBenchStepCommand(const std::vector<std::string>& arguments,
                        const Environment& environment,
                        const TrainingSources& sources);

// `tributary bench stream`: runs one process of a measurement by
// MeasureStreamLimit.
int RunBenchStreamCommand(const std::vector<std::string>& arguments,
                          const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_BENCH_BENCH_COMMAND_H_
