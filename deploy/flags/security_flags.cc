#include "deploy/flags/security_flags.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/os/local_host.h"
#include "deploy/flags/environment.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

bool StaysHere(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  return parsed.ok() && IsLoopback(parsed->host);
}

// Reads all that a different process has written to `fd`, which is small.
std::string ReadDescriptor(int fd) {
  std::string text;
  char bytes[4096];
  ssize_t count = 0;
  while ((count = read(fd, bytes, sizeof(bytes))) > 0 ||
         (count < 0 && errno == EINTR)) {
    if (count > 0) text.append(bytes, count);
  }
  return text;
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

void AddCredentialsFdFlag(CommandLine* line, SecurityFlags* flags) {
  line->AddHiddenInteger("credentials-fd", 0, 1 << 20, &flags->credentials_fd);
}

absl::StatusOr<Security> ReadSecurity(const SecurityFlags& flags,
                                      const std::vector<Role>& roles) {
  if (flags.credentials_fd >= 0) {
    return ParseSecurity(ReadDescriptor(static_cast<int>(flags.credentials_fd)),
                         roles.front());
  }
  return LoadSecurity(flags.tls_dir, flags.token_file, roles);
}

std::string PrintSecurity(const Security& security) {
  return nlohmann::json({{"ca", security.tls_texts.ca},
                         {"certificate", security.tls_texts.certificate},
                         {"key", security.tls_texts.key},
                         {"token", security.token}})
      .dump();
}

absl::StatusOr<Security> ParseSecurity(const std::string& text, Role role) {
  const nlohmann::json json = ParseJson(text);
  Security security;
  security.role = role;
  for (const auto& [name, value] :
       {std::pair<const char*, std::string*>{"ca", &security.tls_texts.ca},
        {"certificate", &security.tls_texts.certificate},
        {"key", &security.tls_texts.key},
        {"token", &security.token}}) {
    const bool found =
        json.is_object() && json.contains(name) && json[name].is_string();
    if (!found) {
      return absl::InvalidArgumentError(
          absl::StrCat("the text that --credentials-fd reads has no \"", name,
                       "\"; only a launcher of Tributary sets this flag"));
    }
    *value = json[name].get<std::string>();
  }
  return security;
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
