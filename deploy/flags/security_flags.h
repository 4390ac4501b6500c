// How a process shows who it is and whom it believes, on the command line.
#ifndef TRIBUTARY_DEPLOY_FLAGS_SECURITY_FLAGS_H_
#define TRIBUTARY_DEPLOY_FLAGS_SECURITY_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/log.h"
#include "common/transport/security.h"
#include "deploy/flags/command_line.h"

namespace tributary {

struct SecurityFlags {
  std::string tls_dir;
  std::string token_file;
  bool insecure_network = false;
};

// --tls-dir and --token-file.
void AddSecurityFlags(CommandLine* line, SecurityFlags* flags);
// --insecure-network, for commands that talk to other machines.
void AddInsecureNetworkFlag(CommandLine* line, const std::string& help,
                            SecurityFlags* flags);

// The files that the flags name, checked: what a process with the first of
// `roles` whose certificate is there needs.
absl::StatusOr<Security> ReadSecurity(const SecurityFlags& flags,
                                      const std::vector<Role>& roles);

// InvalidArgument for a token that would go to another machine in clear text,
// unless --insecure-network allows it. `address` is host:port.
absl::Status CheckConnectTo(const std::string& address,
                            const SecurityFlags& flags,
                            const Security& security);

// Warns of what others can do in the network that `address` belongs to; nothing
// for a loopback address or with TLS.
void WarnOfNetwork(const std::string& address, const Security& security,
                   Logger* log);

// The flags for another process of ours.
std::vector<std::string> SecurityArguments(const SecurityFlags& flags);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_SECURITY_FLAGS_H_
