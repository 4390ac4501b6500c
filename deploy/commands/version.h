// The text that `tributary --version` prints.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_VERSION_H_
#define TRIBUTARY_DEPLOY_COMMANDS_VERSION_H_

#include <string>

namespace tributary {

// Returns the text that `tributary --version` prints. The first line contains
// the release and the version of the protocol. Further lines contain the commit
// and the CUDA toolkit of the build, and the instruction set that the program
// uses on this machine.
std::string VersionText();

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_VERSION_H_
