// The subcommands of `tributary`.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_COMMANDS_H_
#define TRIBUTARY_DEPLOY_COMMANDS_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "deploy/flags/environment.h"
#include "worker/training/training_sources.h"

namespace tributary {

struct Command {
  const char* name;
  // Description in the list of commands, at most 60 characters.
  const char* summary;
  // Runs the command and returns the exit code. `arguments` are the arguments
  // after the command's name. `sources` opens the data and creates the models
  // that jobs name.
  std::function<int(const std::vector<std::string>& arguments,
                    const Environment& environment,
                    const TrainingSources& sources)>
      run;
};

// Returns all commands, in the order in which --help lists them.
const std::vector<Command>& Commands();

// Runs the command that arguments[0] names, or handles --help or --version.
// Jobs may name the data and models of `sources`. Writes results to stdout and
// everything else to stderr. Returns the exit code.
int RunCommandLine(const std::vector<std::string>& arguments,
                   const Environment& environment,
                   const TrainingSources& sources);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_COMMANDS_H_
