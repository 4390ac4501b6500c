// The flags for TLS and the token.
#ifndef TRIBUTARY_DEPLOY_FLAGS_SECURITY_FLAGS_H_
#define TRIBUTARY_DEPLOY_FLAGS_SECURITY_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/logger.h"
#include "common/transport/security.h"
#include "deploy/flags/command_line.h"

namespace tributary {

struct SecurityFlags {
  std::string tls_dir;
  std::string token_file;
  bool insecure_network = false;
  // The file descriptor from which the process reads its credentials, in place
  // of the files; -1 if no launcher passes credentials. See PrintSecurity.
  int64_t credentials_fd = -1;
};

// Declares --tls-dir and --token-file, which name a process's credentials.
void AddSecurityFlags(CommandLine* line, SecurityFlags* flags);
// Declares --insecure-network, which allows unencrypted connections to other
// machines.
void AddInsecureNetworkFlag(CommandLine* line, const std::string& help,
                            SecurityFlags* flags);

// Declares --credentials-fd, the file descriptor from which a process that was
// started by a launcher reads its credentials.
void AddCredentialsFdFlag(CommandLine* line, SecurityFlags* flags);

// Reads and checks the credentials in the files that the flags name. Uses the
// certificate of the first of `roles` for which the TLS directory has one.
// Returns the errors of LoadSecurity. If `flags.credentials_fd` is set, reads
// the credentials from this descriptor instead, and returns InvalidArgument if
// they are not the text of PrintSecurity.
absl::StatusOr<Security> ReadSecurity(const SecurityFlags& flags,
                                      const std::vector<Role>& roles);

// Returns the credentials in the text form that a process started with
// --credentials-fd reads. `security.tls_directory` must be empty.
std::string PrintSecurity(const Security& security);
// Returns the credentials that PrintSecurity has printed, for `role`, or
// InvalidArgument.
absl::StatusOr<Security> ParseSecurity(const std::string& text, Role role);

// Returns InvalidArgument if the token would be sent to a different machine
// without encryption and --insecure-network is not set. `address` is host:port.
absl::Status CheckConnectTo(const std::string& address,
                            const SecurityFlags& flags,
                            const Security& security);

// Logs a warning that traffic with `address` is not encrypted, and states what
// other machines in that network can do, such as stop the server or read the
// token. Does nothing for a loopback address or with TLS.
void WarnOfNetwork(const std::string& address, const Security& security,
                   Logger* log);

// Returns those of the arguments --tls-dir and --token-file that are set, for
// starting another process of the job.
std::vector<std::string> SecurityArguments(const SecurityFlags& flags);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_SECURITY_FLAGS_H_
