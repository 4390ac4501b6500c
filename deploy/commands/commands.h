// The subcommands of `tributary`.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_COMMANDS_H_
#define TRIBUTARY_DEPLOY_COMMANDS_COMMANDS_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

struct Command {
  const char* name;
  // For the list of commands: at most 60 characters.
  const char* summary;
  // Runs it with the arguments behind its name; returns the exit code.
  int (*run)(const std::vector<std::string>& arguments,
             const Environment& environment);
};

// All there are; a new one is a line in commands.cc.
const std::vector<Command>& Commands();

// Runs the command that arguments[0] names, or answers --help and --version.
// Results go to stdout, everything else to stderr. Returns the exit code.
int RunCommandLine(const std::vector<std::string>& arguments,
                   const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_COMMANDS_H_
