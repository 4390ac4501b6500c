// What `tributary --version` prints.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_VERSION_H_
#define TRIBUTARY_DEPLOY_COMMANDS_VERSION_H_

#include <string>

namespace tributary {

// Returns the release and the protocol, and on further lines the commit and the
// CUDA toolkit that the program was built from, and the instructions of this
// machine's processor that it uses.
std::string VersionText();

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_VERSION_H_
