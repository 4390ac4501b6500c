#include "deploy/flags/security_flags.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/local_host.h"
#include "deploy/flags/environment.h"

namespace tributary {
namespace {

bool StaysHere(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  return parsed.ok() && IsLoopback(parsed->host);
}

}  // namespace

void AddSecurityFlags(CommandLine* line, SecurityFlags* flags) {
  line->AddText(
      "tls-dir", "DIR",
      "Use mutual TLS with ca.pem and this role's ROLE.pem and ROLE-key.pem in "
      "DIR (see 'tributary certs'). Changed files are reloaded.",
      &flags->tls_dir);
  line->AddText("token-file", "FILE",
                "File with the job's token, one line. Peers without the token "
                "are refused.",
                &flags->token_file);
}

void AddInsecureNetworkFlag(CommandLine* line, const std::string& help,
                            SecurityFlags* flags) {
  line->AddSwitch("insecure-network", help, &flags->insecure_network);
}

absl::StatusOr<Security> ReadSecurity(const SecurityFlags& flags,
                                      const std::vector<Role>& roles) {
  return LoadSecurity(flags.tls_dir, flags.token_file, roles);
}

absl::Status CheckConnectTo(const std::string& address,
                            const SecurityFlags& flags,
                            const Security& security) {
  if (security.tls() || security.token.empty() || flags.insecure_network ||
      StaysHere(address)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the token of --token-file would be sent to ", address,
                   " unencrypted; add --tls-dir DIR, or --insecure-network in "
                   "a network that you trust"));
}

void WarnOfNetwork(const std::string& address, const Security& security,
                   Logger* log) {
  if (security.tls() || StaysHere(address)) return;
  log->Warning(
      "%s without --tls-dir: traffic is not encrypted, and %s", address,
      security.token.empty()
          ? "anyone in that network can join the job or stop the server"
          : "anyone in that network can stop the server and read the token");
}

std::vector<std::string> SecurityArguments(const SecurityFlags& flags) {
  std::vector<std::string> arguments;
  if (!flags.tls_dir.empty()) {
    arguments.insert(arguments.end(), {"--tls-dir", flags.tls_dir});
  }
  if (!flags.token_file.empty()) {
    arguments.insert(arguments.end(), {"--token-file", flags.token_file});
  }
  return arguments;
}

}  // namespace tributary
