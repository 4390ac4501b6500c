// The actions of `tributary tune` on the folder of a study.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_ACTIONS_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_ACTIONS_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// Like the functions of deploy/commands/subcommands.h, for the arguments that
// follow the name of the action.

// `tributary tune status`: shows the trials.
int RunTuneStatus(const std::vector<std::string>& arguments,
                  const Environment& environment);
// `tributary tune best`: shows the best trial, and writes its job.
int RunTuneBest(const std::vector<std::string>& arguments,
                const Environment& environment);
// `tributary tune enqueue`: adds a trial with given values.
int RunTuneEnqueue(const std::vector<std::string>& arguments,
                   const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_TUNE_ACTIONS_H_
