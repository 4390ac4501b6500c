// The subcommands of `tributary`.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_COMMANDS_H_
#define TRIBUTARY_DEPLOY_COMMANDS_COMMANDS_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

struct Command {
  const char* name;
  // Description in the list of commands, at most 60 characters.
  const char* summary;
  // Runs the command with the arguments after its name. Returns the exit code.
  int (*run)(const std::vector<std::string>& arguments,
             const Environment& environment);
};

// Returns all commands, in the order in which --help lists them.
const std::vector<Command>& Commands();

// Runs the command that arguments[0] names, or handles --help or --version.
// Writes results to stdout and everything else to stderr. Returns the exit
// code.
int RunCommandLine(const std::vector<std::string>& arguments,
                   const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_COMMANDS_H_
