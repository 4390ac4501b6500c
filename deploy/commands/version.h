// The text that `tributary --version` prints.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_VERSION_H_
#define TRIBUTARY_DEPLOY_COMMANDS_VERSION_H_

#include <string>

namespace tributary {

// Returns the text that `tributary --version` prints: the release and the
// version of the protocol, and on further lines the commit and the CUDA toolkit
// with which the program was built, and the instruction set of this machine's
// processor that the program uses.
std::string VersionText();

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_VERSION_H_
