// `tributary certs`: creates an authority and certificates for tests.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_CERTS_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_CERTS_COMMAND_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

// Returns the exit code.
int RunCertsCommand(const std::vector<std::string>& arguments,
                    const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_CERTS_COMMAND_H_
