#include "common/transport/security.h"

#include <sys/stat.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/transport/certificates.h"

namespace tributary {
namespace {

constexpr char kDnsSuffix[] = ".tributary";
constexpr int64_t kMaxPemBytes = 1 << 20;
bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

absl::Status CheckFiles(const Security& security) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string authorities,
                             ReadFile(security.CaPath(), kMaxPemBytes));
  CertificateAndKey own;
  TRIBUTARY_ASSIGN_OR_RETURN(
      own.certificate, ReadFile(security.CertificatePath(), kMaxPemBytes));
  TRIBUTARY_ASSIGN_OR_RETURN(own.key,
                             ReadFile(security.KeyPath(), kMaxPemBytes));
  const absl::Status checked =
      CheckCertificate(authorities, own, RoleDnsName(security.role));
  if (checked.ok()) return checked;
  return absl::InvalidArgumentError(absl::StrCat(
      security.CertificatePath(), " (with ", security.KeyPath(), " and ",
      security.CaPath(), ") cannot be used: ", checked.message(),
      "; create new ones (for tests: `tributary certs DIR`)"));
}

absl::Status FindRole(const std::vector<Role>& roles, Security* security) {
  for (const Role role : roles) {
    security->role = role;
    if (Exists(security->CertificatePath())) return absl::OkStatus();
  }
  security->role = roles.front();
  return absl::NotFoundError(absl::StrCat(
      "--tls-dir ", security->tls_directory, " has no ",
      RoleName(security->role), ".pem; it must hold ca.pem, ",
      RoleName(security->role), ".pem and ", RoleName(security->role),
      "-key.pem (for tests: `tributary certs DIR`)"));
}

}  // namespace

const char* RoleName(Role role) {
  switch (role) {
    case Role::kServer:
      return "server";
    case Role::kWorker:
      return "worker";
    case Role::kAdmin:
      break;
  }
  return "admin";
}

std::string RoleDnsName(Role role) {
  return absl::StrCat(RoleName(role), kDnsSuffix);
}

absl::optional<Role> RoleOfDnsName(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, kDnsSuffix)) return absl::nullopt;
  for (const Role role : kAllRoles) {
    if (name == RoleName(role)) return role;
  }
  return absl::nullopt;
}

std::vector<std::string> Security::Tokens() const {
  if (token_file != nullptr) return token_file->tokens();
  if (token.empty()) return {};
  return {token};
}

std::string Security::CaPath() const {
  return absl::StrCat(tls_directory, "/ca.pem");
}

std::string Security::CertificatePath() const {
  return absl::StrCat(tls_directory, "/", RoleName(role), ".pem");
}

std::string Security::KeyPath() const {
  return absl::StrCat(tls_directory, "/", RoleName(role), "-key.pem");
}

absl::StatusOr<Security> LoadSecurity(const std::string& tls_directory,
                                      const std::string& token_file,
                                      const std::vector<Role>& roles) {
  Security security;
  security.role = roles.front();
  security.tls_directory = tls_directory;
  if (security.tls()) {
    TRIBUTARY_RETURN_IF_ERROR(FindRole(roles, &security));
    TRIBUTARY_RETURN_IF_ERROR(CheckFiles(security));
  }
  if (!token_file.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(security.token_file,
                               TokenFile::Open(token_file));
    security.token = security.token_file->tokens().front();
  }
  return security;
}

}  // namespace tributary
